// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// Numbers as the bytes of control messages, the most significant byte first. Pure.

/// Appends the low `size` bytes of `number`, at most 8.
inline void append_big_endian(std::string& out, std::uint64_t number, std::size_t size) {
  for (std::size_t i = size; i-- > 0;) out += static_cast<char>(number >> (8 * i) & 0xff);
}

/// The number that all of `bytes` are, at most 8.
inline std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

}  // namespace ddprun
