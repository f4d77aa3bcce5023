// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Hexadecimal digits, in small letters.

/// Writes two digits for each byte to `to`.
void write_hex(std::string_view bytes, char* to);

/// Returns two digits for each byte.
std::string hex_text(std::string_view bytes);

/// Returns `number` with at least `digits` digits.
std::string hex_text(std::uint64_t number, std::size_t digits = 1);

/// A duration as text, rounded down: "12 ms", "41.3 s", "96 s", "10 min", "3 h 12 min", "4 d 2 h".
/// A negative one counts as zero.
std::string duration_text(std::chrono::nanoseconds duration);

/// `seconds` (not negative) in whole milliseconds, which keeps its text in JSON short. Avoids libm,
/// which nothing else needs.
double whole_milliseconds(double seconds);

/// Ranks as text, ascending, with runs joined: "0, 1, 3", "0-6, 8-127". A run of two is not joined.
/// Writes only the first `most` pieces: "0, 2, 4 and 497 more".
std::string compress_ranks(std::vector<int> ranks, size_t most = 12);

/// The same with the noun: "rank 3", "ranks 0-6, 8-127".
std::string ranks_text(const std::vector<int>& ranks, size_t most = 12);

/// "1 node", "4 nodes".
std::string count_text(std::int64_t count, const std::string& noun);

/// Ascending numbers in the list format of cpuset(7): "0-7,64-71".
std::string list_text(const std::vector<int>& ascending);

/// The first `most` bytes of `text`, and "..." if there are more. Never cuts a UTF-8 character in
/// two.
std::string cut(std::string text, size_t most);

/// `text` with every control character except tab and newline written as "\x1b", so that untrusted
/// bytes cannot control a terminal. UTF-8 passes; other bytes become "\xff".
std::string printable(std::string_view text);

/// `word` quoted for a POSIX shell.
std::string shell_word(std::string_view word);

/// "host:port"; an IPv6 address gets brackets.
std::string endpoint_text(const std::string& host, std::uint16_t port);

/// Demangles the function's name in a line of backtrace_symbols(3): "./train(_Z4stepi+0x1f)"
/// becomes "./train(step(int)+0x1f)". Returns other lines unchanged.
std::string with_cxx_name(std::string line);

/// Demangles a C++ name; returns other names unchanged.
std::string demangled(const std::string& name);

// The pieces of a text.

/// Removes the text before the first `separator`, and the separator, from `rest`. Returns that
/// text; all text if there is no separator.
inline std::string_view take_piece(std::string_view& rest, char separator) {
  const std::string_view piece = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(piece.size() + 1, rest.size()));
  return piece;
}

/// Returns the words between blanks, tabs and ends of lines.
inline std::vector<std::string_view> words_between_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::string_view> words;
  for (auto at = text.find_first_not_of(kBlanks); at != text.npos;) {
    const auto end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

}  // namespace ddprun
