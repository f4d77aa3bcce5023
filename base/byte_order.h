// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

// Numbers as bytes. Control messages have the most significant byte first; the store and files have
// the least significant first. Pure.

/// Appends the low `size` bytes of `number`, at most 8.
inline void append_big_endian(std::string& out, std::uint64_t number, std::size_t size) {
  for (std::size_t i = size; i-- > 0;) out += static_cast<char>(number >> (8 * i) & 0xff);
}

/// The number that all of `bytes` (at most 8) make.
inline std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

/// Appends the low `size` bytes of `number`, at most 8.
inline void append_little_endian(std::string& out, std::uint64_t number, std::size_t size) {
  char bytes[8];
  for (char& byte : bytes) {
    byte = static_cast<char>(number & 0xff);
    number >>= 8;
  }
  out.append(bytes, size);
}

/// The number that all of `bytes` (at most 8) make.
inline std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

}  // namespace ddprun
