// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"

#include <unistd.h>

// Run by a test of its own, which expects that it is ended.
TEST_CASE("a test that never ends", "[.never_ends]") {
  SECTION("its section") {
    for (;;) pause();
  }
}
