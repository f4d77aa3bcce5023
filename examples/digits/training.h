// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "examples/digits/flags.h"

namespace digits {

/// What one rank does of a global batch.
struct Step {
  std::size_t first = 0;  ///< of the rank's digits of the epoch
  std::size_t count = 0;  ///< of them; may be 0 in the last batch
  std::size_t of = 0;     ///< digits in the batch
};

/// The steps of an epoch over `digits` digits for rank `rank` of `size`, whose i-th is the one at
/// i * size + rank of all.
std::vector<Step> steps(std::size_t digits, std::size_t batch, int rank, int size);

/// Prints a line about an epoch that is done.
void report(const Flags& flags, int epoch, double loss, double accuracy);

/// Dies as a broken machine does, at once and without a word to the others, if --crash-at names
/// this epoch and rank; in the first of a launcher's attempts alone.
void crash_if_asked(const Flags& flags, int epoch, int rank);

}  // namespace digits
