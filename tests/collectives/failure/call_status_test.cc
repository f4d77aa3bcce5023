// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/call_status.h"

#include "tests/catch.h"

using ddp::internal::compare_statuses;

TEST_CASE("groups of equally many ranks are named by their call's number, furthest behind first") {
  CHECK(compare_statuses({{0, "in no call since #18 barrier"},
                          {1, "in no call since #2 barrier"},
                          {2, "at #19 barrier"}}) ==
        "rank 1 is in no call since #2 barrier, rank 0 in no call since #18 barrier, "
        "rank 2 at #19 barrier");
}
