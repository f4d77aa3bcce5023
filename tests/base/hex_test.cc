// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "tests/catch.h"

namespace ddprun {

TEST_CASE("bytes and numbers are written in hexadecimal", "[base]") {
  CHECK(hex_text(std::string_view("\x00\x7f\xff", 3)) == "007fff");
  CHECK(hex_text("") == "");
  CHECK(hex_text(std::uint64_t{0}) == "0");
  CHECK(hex_text(std::uint64_t{0x1f0}) == "1f0");
  CHECK(hex_text(std::uint64_t{0x1f}, 4) == "001f");
  CHECK(hex_text(~std::uint64_t{0}, 4) == "ffffffffffffffff");
}

}  // namespace ddprun
