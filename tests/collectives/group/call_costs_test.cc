// SPDX-License-Identifier: Apache-2.0
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/paths.h"

using namespace ddprun::tests;

TEST_CASE("a short call in memory takes no lock, and messages take few, and few allocations") {
  for (const Ended& rank : run_ranks(2, Words{program_path("call_costs")})) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}
