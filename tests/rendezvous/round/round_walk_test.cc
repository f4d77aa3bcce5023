// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include "rendezvous/round/round.h"
#include "tests/catch.h"
#include "tests/rendezvous/round/walk.h"

namespace ddprun::rendezvous {
namespace {

// The sanitizers find as much with fewer histories.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kHistories = 1'000;
#else
constexpr int kHistories = 10'000;
#endif

TEST_CASE("whatever nodes do, rounds are whole, one at a time, and everyone is answered") {
  int rounds = 0, resumed = 0, prior_failures = 0, paid_losses = 0;
  for (int seed = 1; seed <= kHistories; ++seed) {
    INFO("seed " << seed);
    Walk walk(static_cast<unsigned>(seed));
    walk.run(500);
    rounds += walk.rounds();
    resumed += walk.resumed();
    paid_losses += walk.paid_losses();
    prior_failures += walk.prior_failures();
  }
  // Else the histories are too uneventful to mean much.
  CHECK(rounds > 1.5 * kHistories);
  CHECK(resumed > 0.1 * kHistories);
  CHECK(prior_failures > 0.01 * kHistories);
  CHECK(paid_losses > 0.003 * kHistories);
}

TEST_CASE("a job of ten thousand nodes forms, breaks and ends with a notification for each") {
  RoundSpec spec;
  spec.min_nodes = spec.max_nodes = 10'000;
  spec.max_restarts = 1;
  Round round(spec);
  JoinRequest request;
  request.local_size = 8;
  Notifications notifications;
  const auto all_join = [&] {
    for (int i = 0; i < spec.max_nodes; ++i) {
      request.node_rank = spec.max_nodes - 1 - i;
      notifications = round.join(static_cast<NodeId>(i), request, {});
      CHECK((notifications.empty() || i == spec.max_nodes - 1));
    }
  };
  all_join();
  CHECK(notifications.size() == 10'000);
  CHECK(std::get<Ready>(notifications.back().second).layout.first_rank == 79'992);
  CHECK(round.fail(7, 0, Failure{}, {}).size() == 10'000);
  all_join();
  CHECK(round.fail(7, 1, Failure{}, {}).size() == 10'000);
  CHECK(round.waiting_for().size() < 200);
  request.worker_exits.failed = {{1, "exit 1"}};
  all_join();
  CHECK(notifications.size() == 10'000);
  CHECK(std::holds_alternative<Closed>(notifications.back().second));
}

}  // namespace
}  // namespace ddprun::rendezvous
