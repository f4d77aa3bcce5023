// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <time.h>

namespace ddprun::bench {

/// A record of bench_worker; one write each, so that records of many workers do not mix.
struct Stamp {
  enum class Kind : std::int32_t { main, death, asked_to_stop };

  std::int64_t time;  ///< monotonic, ns
  Kind kind;
  std::int32_t pid;
  std::int32_t rank;
  std::int32_t generation;  ///< restarts before it
};

inline std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace ddprun::bench
