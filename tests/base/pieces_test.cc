// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "tests/catch.h"

namespace ddprun {

using Texts = std::vector<std::string_view>;

TEST_CASE("a text is taken to pieces at its separators", "[base]") {
  std::string_view rest = "a,,b,";
  Texts pieces;
  while (!rest.empty()) pieces.push_back(take_piece(rest, ','));
  CHECK(pieces == Texts{"a", "", "b"});
}

TEST_CASE("a text is split into words at blanks", "[base]") {
  CHECK(words_between_blanks(" one\ttwo \r\n three") == Texts{"one", "two", "three"});
  CHECK(words_between_blanks(" \n").empty());
}

}  // namespace ddprun
