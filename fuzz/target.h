// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

namespace ddprun::fuzz {

/// Ends the process, as libFuzzer expects of a finding, if a target's claim does not hold.
inline void require(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", claim);
  std::abort();
}

}  // namespace ddprun::fuzz
