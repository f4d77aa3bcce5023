// SPDX-License-Identifier: Apache-2.0
#include "base/bounded_json.h"

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

}  // namespace ddprun
