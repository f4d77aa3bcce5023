// SPDX-License-Identifier: Apache-2.0
#include "base/hex.h"

#include <algorithm>

#include "base/byte_order.h"

namespace ddprun {

void write_hex(std::string_view bytes, char* to) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    *to++ = kDigits[byte >> 4];
    *to++ = kDigits[byte & 15];
  }
}

std::string hex_text(std::string_view bytes) {
  std::string text(2 * bytes.size(), '\0');
  write_hex(bytes, text.data());
  return text;
}

std::string hex_text(std::uint64_t number, std::size_t digits) {
  std::string bytes;
  append_big_endian(bytes, number, sizeof number);
  const std::string text = hex_text(bytes);
  return text.substr(std::min(text.find_first_not_of('0'), text.size() - digits));
}

}  // namespace ddprun
