// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace examples {

/// Prints one line and exits 2.
[[noreturn]] inline void refuse(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(2);
}

/// Parses `text` as a number from `low` to `high`; else refuses it: "NAME TEXT: expected WHAT".
template <class Number>
Number number(std::string_view name, std::string_view text, Number low, Number high,
              const char* what) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && value >= low && value <= high) return value;
  refuse(std::string(name) + " " + std::string(text) + ": expected " + what);
}

}  // namespace examples
