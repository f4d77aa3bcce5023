// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <string>

#include "tests/catch.h"

using namespace ddprun;

TEST_CASE("a line with text of another host cannot steer the terminal") {
  std::string written;
  log::set_writer([&](std::string_view line) { written += line; });
  log::info("refused evil\x1b]0;owned\x07 and \xc2\x9b[2J, gpu-\xc3\xa4\nsecond");
  log::set_writer({});
  CHECK(written ==
        "ddprun: refused evil\\x1b]0;owned\\x07 and \\xc2\\x9b[2J, gpu-\xc3\xa4\n        second\n");
}
