// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

// The one door for JSON that another process wrote. Pure.

namespace ddprun {

/// The depth to which lists and objects may nest: copying a value takes as deep a stack.
inline constexpr int kDeepestJson = 200;

/// Whether `text` has at most `most_values` values, none of them deeper than kDeepestJson. An empty
/// list or object counts as two values. If the text is not JSON, the result means nothing. Takes no
/// memory, and a time linear in the text.
bool is_bounded_json(std::string_view text, std::size_t most_values);

/// `text` as a `Json` of nlohmann's. Its is_discarded() is true if the text is not JSON, is too
/// deep, or has more than `most_values` values.
template <class Json>
Json parse_bounded(std::string_view text, std::size_t most_values = std::string_view::npos) {
  if (!is_bounded_json(text, most_values)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace ddprun
