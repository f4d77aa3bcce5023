// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/simulation.h"

#include <cstdlib>
#include <string>
#include <unistd.h>

#include "tests/catch.h"

namespace ddprun::simulation {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kHistories = 250;
#else
constexpr std::uint64_t kHistories = 2'500;
#endif

/// Runs the histories of the seeds from `otherwise` on, or those that the environment names.
void check_histories(std::uint64_t otherwise, Simulation::Kind kind = Simulation::Kind::narrow) {
  const auto first = from_environment("DDPRUN_SIMULATION_SEED", otherwise);
  const bool one = std::getenv("DDPRUN_SIMULATION_SEED") != nullptr;
  const auto count = from_environment("DDPRUN_SIMULATIONS", one ? 1 : kHistories);
  if (std::getenv("DDPRUN_SIMULATIONS") != nullptr) alarm(0);  // no time limit
  Counts counts;
  int failed = 0;
  for (std::uint64_t seed = first; seed < first + count && failed < 10; ++seed) {
    Simulation history(seed, one && count == 1, kind);
    if (!history.run()) {
      ++failed;
      UNSCOPED_INFO("seed " << seed << ": " << history.violation());
    }
    counts += history.counts();
  }
  INFO("rounds " << counts.rounds << ", resumed " << counts.resumed << ", leases over "
                 << counts.leases_over << ", evicted " << counts.evicted << ", proven "
                 << counts.proven << ", masters " << counts.masters << ", gave up "
                 << counts.gave_up << ", answers " << counts.answers << ", stops " << counts.stops
                 << ", hangs " << counts.hangs << ", beside workers of a suspended host "
                 << counts.of_suspended_host << ", of an unknown round " << counts.of_unknown_round
                 << ", of an unguarded agent " << counts.of_unguarded_agent
                 << ", of a killed master " << counts.of_killed_master);
  CHECK(failed == 0);
  if (count < 250) return;
  // With fewer events, the histories would not test much.
  const auto at_least = [count](long seen, double each) {
    return static_cast<double>(seen) >= each * static_cast<double>(count);
  };
  CHECK(at_least(counts.rounds, 1));
  CHECK(at_least(counts.resumed, 1));
  CHECK(at_least(counts.leases_over, 0.3));
  CHECK(at_least(counts.evicted, 0.2));
  CHECK(at_least(counts.proven, 0.5));
  CHECK(at_least(counts.answers, 0.5));
  CHECK(at_least(counts.stops, 0.02));
  CHECK(at_least(counts.hangs, 0.02));
}

// The parts may run at the same time.

TEST_CASE("in random histories, two rounds never run at once, and every node is answered") {
  check_histories(1);
}

TEST_CASE("in random histories, two rounds never run at once: second part", "[part]") {
  check_histories(1 + kHistories);
}

TEST_CASE("in random histories, two rounds never run at once: third part", "[part]") {
  check_histories(1 + 2 * kHistories);
}

TEST_CASE("in random histories, two rounds never run at once: last part", "[part]") {
  check_histories(1 + 3 * kHistories);
}

TEST_CASE("in random histories with elected masters, two rounds never run at once",
          "[part][wide]") {
  check_histories(1, Simulation::Kind::wide);
}

TEST_CASE("histories that the checks once blamed wrongly have no violation", "[part]") {
  for (const std::uint64_t seed : {
           601'090'171,  // a round was dated when its node heard of it
           601'727'536,  // a master stood still until the end and then waited for a lease
           603'427'371,  // a new master had a round 6 ms after the old master was killed
       }) {
    Simulation history(seed);
    INFO("seed " << seed);
    CHECK(history.run());
  }
}

}  // namespace
}  // namespace ddprun::simulation
