// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#if __has_include(<stdfloat>)
#include <stdfloat>
#endif

namespace ddp {

/// IEEE 754 binary16 ("half"): 1 sign bit, 5 of exponent, 10 of fraction. It stores a number and
/// converts; to compute, convert to float, which holds every value of it exactly.
class float16 {  // NOLINT(readability-identifier-naming): as the types it stands beside
 public:
  constexpr float16() = default;

  /// Rounds to nearest, ties to even (IEEE 754, 4.3.1): from 65520 on the result is infinity. A NaN
  /// stays a NaN with its sign.
  constexpr explicit float16(float value) : bits_(round(value)) {}

  /// The same value.
  constexpr operator float() const {  // NOLINT(google-explicit-constructor): exact, so safe
    const std::uint32_t sign = (bits_ & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits_ & 0x7fffU;
    // Subnormal values count units of 2^-24.
    if (magnitude < 0x0400U) {
      const float value = static_cast<float>(magnitude) * 0x1p-24F;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    const std::uint32_t bias = magnitude >= 0x7c00U ? 0x70000000U : 0x38000000U;
    return std::bit_cast<float>(sign | ((magnitude << 13U) + bias));
  }

  /// From and to the representation in memory.
  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 value;
    value.bits_ = bits;
    return value;
  }
  constexpr std::uint16_t bits() const { return bits_; }

 private:
  static constexpr std::uint16_t round(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = all >> 16U & 0x8000U;
    const std::uint32_t magnitude = all & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {
      // At 0.5 the last bit of a float is 2^-24, too: the addition rounds.
      const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign |
                                        (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
    }
    const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13U & 1U);
    return static_cast<std::uint16_t>(sign | (rounded - 0x38000000U) >> 13U);
  }

  std::uint16_t bits_ = 0;
};

/// The upper half of a float ("brain float"): 1 sign bit, 8 of exponent, 7 of fraction. It stores a
/// number and converts, as float16 does.
class bfloat16 {  // NOLINT(readability-identifier-naming)
 public:
  constexpr bfloat16() = default;

  /// Rounds to nearest, ties to even. A NaN stays a NaN with its sign.
  constexpr explicit bfloat16(float value) : bits_(round(value)) {}

  /// The same value.
  constexpr operator float() const {  // NOLINT(google-explicit-constructor): exact, so safe
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16U);
  }

  /// From and to the representation in memory.
  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 value;
    value.bits_ = bits;
    return value;
  }
  constexpr std::uint16_t bits() const { return bits_; }

 private:
  static constexpr std::uint16_t round(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    if ((all & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(all >> 16U | 0x40U);
    return static_cast<std::uint16_t>((all + 0x7fffU + (all >> 16U & 1U)) >> 16U);
  }

  std::uint16_t bits_ = 0;
};

static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);

}  // namespace ddp
