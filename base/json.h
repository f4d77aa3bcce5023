// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace ddprun {

using Json = nlohmann::json;                 ///< sorts an object's members by their names
using OrderedJson = nlohmann::ordered_json;  ///< keeps members in the order in which they came

/// The depth to which lists and objects may nest: copying a value takes as deep a stack.
inline constexpr int kDeepestJson = 200;

/// Whether `text` has at most `most_values` values, none of them deeper than kDeepestJson. An empty
/// list or object counts as two values. If the text is not JSON, the result means nothing. Takes no
/// memory, and a time linear in the text.
bool is_bounded_json(std::string_view text, std::size_t most_values);

/// Parses JSON that another process wrote. The result's is_discarded() is true if the text is not
/// JSON, is too deep, or has more than `most_values` values.
Json parse_bounded(std::string_view text, std::size_t most_values = std::string_view::npos);

/// `json` as text, in one line unless `indent` is 0 or more. Bytes that are not UTF-8 become
/// U+FFFD.
std::string json_text(const Json& json, int indent = -1);
std::string json_text(const OrderedJson& json, int indent = -1);

}  // namespace ddprun

// base/json.cc compiles these, which many files use, once, and for speed: otherwise the linker may
// take a copy of a module that is compiled for size.
extern template nlohmann::basic_json<>::basic_json(const nlohmann::json&);
extern template nlohmann::basic_json<>::basic_json(nlohmann::json::initializer_list_t, bool,
                                                   nlohmann::json::value_t);
extern template void nlohmann::basic_json<>::json_value::destroy(nlohmann::json::value_t);
