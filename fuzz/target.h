// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

namespace ddprun::fuzz {

/// Ends the process if what a target claims does not hold, as libFuzzer expects it of a finding.
inline void require(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", claim);
  std::abort();
}

}  // namespace ddprun::fuzz
