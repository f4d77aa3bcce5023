// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/harness.h"

// The parts of bench_rendezvous. Each prints its tables.

namespace ddprun::bench {

void compare_starts(int runs);
void measure_faults(int runs);
void measure_crowds(int runs);
void measure_sessions();
void measure_secret(int runs);

/// Milliseconds from one monotonic time in ns to another.
inline double ms(std::int64_t from, std::int64_t to) {
  return static_cast<double>(to - from) / 1e6;
}

/// "12.3 (11.9)"
inline std::string median_and_least(const std::vector<double>& values, int decimals = 1) {
  const auto least = std::min_element(values.begin(), values.end());
  return cell(median(values), decimals) +
         (least == values.end() ? "" : " (" + cell(*least, decimals) + ")");
}

}  // namespace ddprun::bench
