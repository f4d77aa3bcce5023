// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace ddprun::tests {

/// Makes another group of the same ranks, and calls in both by turns.
inline void use_two_groups(ddp::ProcessGroup& first) {
  auto second = join();
  for (int i = 0; i < 20; ++i) {
    std::vector<std::int64_t> one(1, i);
    first.broadcast(one, 0);
    second.all_reduce(one);
    if (one[0] != i * first.size()) wrong("two groups");
  }
}

}  // namespace ddprun::tests
