// SPDX-License-Identifier: Apache-2.0
#include "tests/linear/steps.h"

namespace {

std::uint64_t entered = 0;

}  // namespace

/// Called by the compiler's code at the start of each basic block (-fsanitize-coverage=trace-pc).
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the compiler's name
extern "C" void __sanitizer_cov_trace_pc() {
  ++entered;
}

std::uint64_t ddprun::tests::steps() {
  return entered;
}
