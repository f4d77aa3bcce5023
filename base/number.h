// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

// Numbers in text: digits, after a '-' if the type has negative numbers. Pure.

namespace ddprun {

/// Returns the number that `text` begins with; nullopt: there is none, or it does not fit.
template <class Number>
std::optional<Number> leading_number(std::string_view text) {
  Number number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? std::optional(number) : std::nullopt;
}

/// Returns the number that `text` is, if it is one from `least` to `most`.
template <class Number>
std::optional<Number> whole_number(std::string_view text,
                                   Number least = std::numeric_limits<Number>::min(),
                                   Number most = std::numeric_limits<Number>::max(),
                                   int base = 10) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, base);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == end;
  return is_whole && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

}  // namespace ddprun
