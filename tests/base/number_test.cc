// SPDX-License-Identifier: Apache-2.0
#include "base/number.h"

#include <cstdint>

#include "tests/catch.h"

namespace ddprun {

TEST_CASE("a number is all of a text, within bounds", "[base]") {
  CHECK(whole_number("12", 0, 12) == 12);
  CHECK(whole_number("-3", -3) == -3);
  CHECK(whole_number<std::uint64_t>("18446744073709551615") == UINT64_MAX);
  CHECK(whole_number<std::uint64_t>("ff", 0, UINT64_MAX, 16) == 255U);
  for (const char* text : {"", "-", "+1", " 1", "1 ", "13", "-1", "1.0", "99999999999"}) {
    INFO(text);
    CHECK_FALSE(whole_number(text, 0, 12).has_value());
  }
}

TEST_CASE("a number may be the beginning of a text", "[base]") {
  CHECK(leading_number<int>("7 GiB") == 7);
  CHECK_FALSE(leading_number<int>("max").has_value());
  CHECK_FALSE(leading_number<std::uint64_t>("-1").has_value());
  CHECK_FALSE(leading_number<int>("99999999999").has_value());
}

}  // namespace ddprun
