// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

template nlohmann::basic_json<>::basic_json(const nlohmann::json&);
template nlohmann::basic_json<>::basic_json(nlohmann::json::initializer_list_t, bool,
                                            nlohmann::json::value_t);
template void nlohmann::basic_json<>::json_value::destroy(nlohmann::json::value_t);

namespace ddprun {

bool is_bounded_json(std::string_view text, std::size_t most_values) {
  std::size_t values = 1;  // each list or object and each comma adds at most one
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_text = !in_text;
    if (in_text && c == '\\') ++i;
    if (in_text) continue;
    const bool opens = c == '[' || c == '{';
    if (c == ']' || c == '}') --depth;
    if (opens && ++depth > kDeepestJson) return false;
    if ((opens || c == ',') && ++values > most_values) return false;
  }
  return true;
}

Json parse_bounded(std::string_view text, std::size_t most_values) {
  if (!is_bounded_json(text, most_values)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string json_text(const OrderedJson& json, int indent) {
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace ddprun
