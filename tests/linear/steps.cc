// SPDX-License-Identifier: Apache-2.0
#include "tests/linear/steps.h"

namespace {

std::uint64_t entered = 0;

}  // namespace

/// The compiler calls it at the begin of each basic block (-fsanitize-coverage=trace-pc).
extern "C" void __sanitizer_cov_trace_pc() {
  ++entered;
}

std::uint64_t ddprun::tests::steps() {
  return entered;
}
