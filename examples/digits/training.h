// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "examples/digits/flags.h"

namespace digits {

/// One rank's part of a global batch.
struct Step {
  std::size_t first = 0;  ///< index among the rank's digits of the epoch
  std::size_t count = 0;  ///< digits of the rank; may be 0 in the last batch
  std::size_t of = 0;     ///< digits in the batch
};

/// The steps of an epoch over `digits` digits for rank `rank` of `size`. The rank's i-th digit is
/// number i * size + rank of all.
std::vector<Step> steps(std::size_t digits, std::size_t batch, int rank, int size);

/// Prints one line about a finished epoch.
void report(const Flags& flags, int epoch, double loss, double accuracy);

/// If --crash-at names this epoch and rank, kills this process, as if its machine failed; only in
/// the launcher's first attempt.
void crash_if_asked(const Flags& flags, int epoch, int rank);

}  // namespace digits
