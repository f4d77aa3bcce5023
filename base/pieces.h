// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

// The pieces of a text. Pure.

namespace ddprun {

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
