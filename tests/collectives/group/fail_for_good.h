// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ddp/process_group.h>
#include <iterator>
#include <string>

#include "tests/catch.h"
#include "tests/collectives/in_rank.h"

namespace ddprun::tests {

/// Makes a call that fails, and then another, which must fail with the same error.
template <class F>
void fail_for_good(ddp::ProcessGroup& group, F call) {
  try {
    call();
  } catch (const ddp::Error& first) {
    try {
      group.barrier();
      wrong("a broken group went on");
    } catch (const ddp::Error& second) {
      if (second.what() != std::string(first.what())) wrong("the error is not sticky");
    }
    throw;
  }
}

/// Generates the number of each element.
template <std::size_t N, class T>
int any_of(const T (&)[N]) {
  return GENERATE(range(0, static_cast<int>(N)));
}

}  // namespace ddprun::tests
