// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/simulation.h"

#include <cstdlib>
#include <string>

#include "tests/catch.h"

namespace ddprun::simulation {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST_CASE("whatever fails, two rounds never run at once, and everyone is answered") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kHistories = 1'000;
#else
  constexpr std::uint64_t kHistories = 10'000;
#endif
  const auto first = from_environment("DDPRUN_SIMULATION_SEED", 1);
  const bool one = std::getenv("DDPRUN_SIMULATION_SEED") != nullptr;
  const auto count = from_environment("DDPRUN_SIMULATIONS", one ? 1 : kHistories);
  Counts counts;
  int failed = 0;
  for (std::uint64_t seed = first; seed < first + count && failed < 10; ++seed) {
    Simulation history(seed, one && count == 1);
    if (!history.run()) {
      ++failed;
      UNSCOPED_INFO("seed " << seed << ": " << history.violation());
    }
    counts += history.counts();
  }
  INFO("rounds " << counts.rounds << ", resumed " << counts.resumed << ", leases over "
                 << counts.leases_over << ", evicted " << counts.evicted << ", proven "
                 << counts.proven << ", masters " << counts.masters << ", gave up "
                 << counts.gave_up << ", beside workers of a suspended host "
                 << counts.of_suspended_host << ", of an unknown round " << counts.of_unknown_round
                 << ", of equal numbers " << counts.of_equal_numbers << ", of an unguarded agent "
                 << counts.of_unguarded_agent);
  CHECK(failed == 0);
  if (count < 1'000) return;
  // Else the histories are too uneventful to mean much.
  const auto at_least = [count](long seen, double each) {
    return static_cast<double>(seen) >= each * static_cast<double>(count);
  };
  CHECK(at_least(counts.rounds, 1));
  CHECK(at_least(counts.resumed, 1));
  CHECK(at_least(counts.leases_over, 0.3));
  CHECK(at_least(counts.evicted, 0.2));
  CHECK(at_least(counts.proven, 0.5));
}

}  // namespace
}  // namespace ddprun::simulation
