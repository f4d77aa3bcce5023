// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::internal {

/// Appends `number` to `out`, in sizeof(Number) bytes, the least significant first.
template <std::unsigned_integral Number>
void put_little_endian(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    out.push_back(static_cast<char>(number >> (8 * i) & 0xff));
  }
}

/// The number whose bytes begin at `at`, which `bytes` must have.
template <std::unsigned_integral Number>
Number get_little_endian(std::string_view bytes, std::size_t at) {
  Number number = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;) {
    number = static_cast<Number>(number << 8 | static_cast<unsigned char>(bytes[at + i]));
  }
  return number;
}

}  // namespace ddp::internal
