// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace ddp {

namespace internal {

/// A floating-point number of 8 bits: 1 sign bit, 7 - fraction_bits of exponent, fraction_bits of
/// fraction. It stores a number and converts, as float16 does. `overflow` is what values above the
/// greatest become; a NaN is 0x7f or 0x7e.
template <class Derived, int fraction_bits, int bias, std::uint8_t overflow>
class Float8 {
 public:
  constexpr Float8() = default;  // NOLINT(bugprone-crtp-constructor-accessibility): inherited

  /// Rounds to nearest, ties to even; above the greatest to infinity, or NaN where there is none.
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): inherited
  constexpr explicit Float8(float value) : bits_(round(value)) {}

  /// The same value.
  constexpr operator float() const {  // NOLINT(google-explicit-constructor): exact, so safe
    const std::uint32_t sign = (bits_ & 0x80U) << 24U;
    const std::uint32_t magnitude = bits_ & 0x7fU;
    if (magnitude > overflow || magnitude == 0x7fU) {  // NOLINT(misc-redundant-expression)
      return std::bit_cast<float>(sign | 0x7fc00000U);
    }
    if (magnitude == overflow) return std::bit_cast<float>(sign | 0x7f800000U);
    if (magnitude < 1U << fraction_bits) {
      const float value = static_cast<float>(magnitude) * kUnit;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << kShift) + kBias));
  }

  /// From and to the representation in memory.
  static constexpr Derived from_bits(std::uint8_t bits) {
    Derived value;
    value.bits_ = bits;
    return value;
  }
  constexpr std::uint8_t bits() const { return bits_; }

 private:
  static constexpr std::uint32_t kShift = 23 - fraction_bits;
  static constexpr std::uint32_t kBias = (127U - bias) << 23U;
  /// The least subnormal value, and the float whose last bit it is.
  static constexpr float kUnit = std::bit_cast<float>((128U - bias - fraction_bits) << 23U);
  static constexpr float kAligner = kUnit * 0x1p23F;

  static constexpr std::uint8_t round(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = all >> 24U & 0x80U;
    const std::uint32_t magnitude = all & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {
      return static_cast<std::uint8_t>(sign | (overflow == 0x7f ? 0x7fU : 0x7eU));
    }
    if (magnitude < kBias + (1U << 23U)) {  // subnormal: the addition rounds
      const float aligned = std::bit_cast<float>(magnitude) + kAligner;
      return static_cast<std::uint8_t>(
          sign | (std::bit_cast<std::uint32_t>(aligned) - std::bit_cast<std::uint32_t>(kAligner)));
    }
    const std::uint32_t half = (1U << (kShift - 1U)) - 1U;
    const std::uint32_t rounded = magnitude + half + (magnitude >> kShift & 1U);
    const std::uint32_t bits = (rounded - kBias) >> kShift;
    return static_cast<std::uint8_t>(sign | (bits < overflow ? bits : overflow));
  }

  std::uint8_t bits_ = 0;
};

}  // namespace internal

/// E4M3 without infinities, as of CUDA and of PyTorch's float8_e4m3fn: at most 448. Greater values
/// become NaN.
class float8_e4m3  // NOLINT(readability-identifier-naming)
    : public internal::Float8<float8_e4m3, 3, 7, 0x7f> {
 public:
  using Float8::Float8;
};

/// E5M2, the upper half of a float16: at most 57344, and infinities.
class float8_e5m2  // NOLINT(readability-identifier-naming)
    : public internal::Float8<float8_e5m2, 2, 15, 0x7c> {
 public:
  using Float8::Float8;
};

static_assert(sizeof(float8_e4m3) == 1 && sizeof(float8_e5m2) == 1);

}  // namespace ddp
