// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using ddprun::kDeepestJson;
using ddprun::parse_bounded;
using nlohmann::json;

namespace {

std::string nested(int depth) {
  const auto size = static_cast<std::size_t>(depth);
  return std::string(size, '[') + std::string(size, ']');
}

}  // namespace

TEST_CASE("JSON that nests too deep is refused before it is parsed") {
  CHECK(parse_bounded(nested(kDeepestJson)).is_array());
  CHECK(parse_bounded(nested(kDeepestJson + 1)).is_discarded());
  CHECK(parse_bounded(std::string(1'000'000, '[')).is_discarded());
  CHECK(parse_bounded("[" + nested(kDeepestJson - 1) + "," + nested(kDeepestJson - 1) + "]")
            .is_array());
}

TEST_CASE("JSON with more values than allowed is refused") {
  const char* text =
      R"({"a":[1,{},"x,y"],"b":null})";  // lists and objects count, an empty one twice
  CHECK(parse_bounded(text, 7).is_object());
  CHECK(parse_bounded(text, 6).is_discarded());
}

TEST_CASE("brackets and commas in texts are not counted") {
  const std::string brackets(1'000, '[');
  for (const std::string& text : {"\"" + brackets + "\"", "\"\\\"" + brackets + ",,,\\\\\""}) {
    CHECK(parse_bounded(text, 1).is_string());
  }
}

TEST_CASE("text that is not JSON is discarded") {
  for (const char* text : {"", "]]]][[[[", "\"\\", "{\"a\":1", "[1] 2", "\xff"}) {
    CHECK(parse_bounded(text).is_discarded());
  }
}
