// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun {

/// `text` as a `Json` of nlohmann's, which is_discarded() if it is none. Values nested deeper than
/// `depth` are left out: foreign text may nest them as deep as it is long, and each copy of them
/// would take as deep a stack. Pure.
template <class Json>
Json parse_shallow(std::string_view text, int depth) {
  const auto is_shallow = [depth](int at, typename Json::parse_event_t, Json&) {
    return at <= depth;
  };
  return Json::parse(text, is_shallow, /*allow_exceptions=*/false);
}

}  // namespace ddprun
