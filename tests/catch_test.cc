// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include <unistd.h>

// A separate test runs this one, and expects that it is ended.
TEST_CASE("a test that never ends", "[.never_ends]") {
  SECTION("its section") {
    for (;;) pause();
  }
}
