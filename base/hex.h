// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Hexadecimal digits, in small letters.

namespace ddprun {

/// Writes two digits for each byte to `to`.
void write_hex(std::string_view bytes, char* to);

/// Returns two digits for each byte.
std::string hex_text(std::string_view bytes);

/// Returns `number` with at least `digits` digits.
std::string hex_text(std::uint64_t number, std::size_t digits = 1);

}  // namespace ddprun
