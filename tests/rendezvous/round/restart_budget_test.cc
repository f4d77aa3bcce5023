// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/restart_budget.h"

#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

using namespace std::chrono_literals;
using Time = RestartBudget::Time;

TEST_CASE("the job ends when the last restart is spent") {
  RoundSpec spec;
  spec.max_restarts = 2;
  RestartBudget budget(spec);
  for (int i = 0; i < 2; ++i) {
    CHECK(budget.refusal(i, 1s, {}).empty());
    budget.spend({});
  }
  CHECK(budget.spent() == 2);
  CHECK(budget.refusal(2, 1s, {}) == "no restart left (2 of 2 used)");
}

TEST_CASE("nodes' reports of restarts only add to the count") {
  RoundSpec spec;
  spec.max_restarts = 3;
  RestartBudget budget(spec);
  budget.learn(2, {});
  budget.learn(1, {});
  CHECK(budget.spent() == 2);
  CHECK(budget.refusal(0, 1s, {}).empty());
  budget.learn(5, {});
  CHECK(budget.refusal(0, 1s, {}) == "no restart left (5 of 3 used)");
}

TEST_CASE("a restart counts for exactly as long as the window") {
  RoundSpec spec;
  spec.max_restarts = 1;
  spec.restart_window = 10s;
  RestartBudget budget(spec);
  budget.spend({});
  CHECK(budget.refusal(1, 1s, Time(9999ms)) == "no restart left (1 of 1 used within 10 s)");
  CHECK(budget.refusal(1, 1s, Time(10s)).empty());
  budget.spend(Time(10s));
  CHECK(budget.spent() == 2);
  CHECK_FALSE(budget.refusal(2, 1s, Time(19s)).empty());
}

TEST_CASE("a count that no honest node can report takes no memory") {
  RoundSpec spec;
  spec.max_restarts = 3;
  spec.restart_window = 10s;
  RestartBudget budget(spec);
  budget.learn(2'000'000'000, {});
  CHECK_FALSE(budget.refusal(0, 1s, Time(9s)).empty());
  CHECK(budget.refusal(0, 1s, Time(10s)).empty());
}

TEST_CASE("the pause before a restart doubles to five minutes, or to a longer --restart_backoff") {
  RoundSpec spec;
  spec.max_restarts = 1'000'000;
  CHECK(RestartBudget(spec).pause_ends() < Time{});
  spec.restart_backoff = 100s;
  RestartBudget budget(spec);
  for (const auto pause : {100s, 200s, 300s, 300s}) {
    budget.spend({});
    CHECK(budget.pause() == pause);
    CHECK(budget.pause_ends() == Time(pause));
  }
  spec.restart_backoff = 1h;
  RestartBudget patient(spec);
  for (int i = 0; i < 3; ++i) patient.spend({});
  CHECK(patient.pause() == 1h);
}

TEST_CASE("a round that fails within --min_uptime is not restarted") {
  RoundSpec spec;
  spec.max_restarts = 3;
  spec.min_uptime = 30s;
  const RestartBudget budget(spec);
  CHECK(budget.refusal(2, 30s, {}).empty());
  CHECK(budget.refusal(2, 1200ms, {}) ==
        "not restarted: round 2 failed 1.2 s after its start, within --min_uptime 30 s: it never "
        "got past its start");
}

}  // namespace
}  // namespace ddprun::rendezvous
