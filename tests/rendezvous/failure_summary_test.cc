// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "rendezvous/prior_round.h"
#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

WorkerExits stopped(std::vector<int> ranks, const std::string& signal, double seconds) {
  WorkerExits worker_exits;
  worker_exits.stopped = std::move(ranks);
  worker_exits.signal = signal;
  worker_exits.seconds = seconds;
  return worker_exits;
}

TEST_CASE("the summary is empty if there are no other workers") {
  FailureSummary summary;
  CHECK(summary.text(0) == "");
  summary.add({});
  CHECK(summary.text(0) == "");
  WorkerExits alone;
  alone.failed = {{0, "exit 9"}};
  summary.add(alone);
  CHECK(summary.text(0) == "");
}

TEST_CASE("the workers of all nodes share a line for each way they ended") {
  FailureSummary summary;
  WorkerExits a = stopped({4}, "SIGTERM", 0.012);
  a.failed = {{5, "exit 9"}, {7, "exit 1"}, {6, "exit 1"}};
  summary.add(a);
  WorkerExits b = stopped({3, 0, 1}, "SIGTERM", 30.02);
  b.killed = {3};
  b.failed = {{2, "killed by SIGABRT"}};
  summary.add(b);
  CHECK(
      summary.text(5) ==
      "ranks 6, 7 failed too (exit 1)\n"
      "rank 2 failed too (killed by SIGABRT)\n"
      "ranks 0, 1, 3, 4 were stopped by ddprun (SIGTERM, gone after 30 s; rank 3 needed SIGKILL)");
}

TEST_CASE("a single stopped worker is in the singular, and SIGKILL is named once") {
  FailureSummary summary;
  WorkerExits a = stopped({0}, "SIGKILL", 0.003);
  a.killed = {0};
  summary.add(a);
  CHECK(summary.text(1) == "rank 0 was stopped by ddprun (SIGKILL, gone after 3 ms)");
}

TEST_CASE("each signal that stopped workers has a line") {
  FailureSummary summary;
  summary.add(stopped({0, 1}, "SIGTERM", 0.5));
  summary.add(stopped({2}, "SIGKILL", 0.001));
  CHECK(summary.text(9) ==
        "rank 2 was stopped by ddprun (SIGKILL, gone after 1 ms)\n"
        "ranks 0, 1 were stopped by ddprun (SIGTERM, gone after 500 ms)");
}

TEST_CASE("the summary of many workers fits on a screen, whatever their nodes wrote") {
  FailureSummary summary;
  for (int node = 0; node < 10'000; ++node) {
    const int first = 3 * node;
    WorkerExits worker_exits = stopped({first}, "SIG" + std::to_string(node % 7), node);
    worker_exits.killed = {first};
    worker_exits.failed = {{first + 1, std::string(500, '\x1b') + std::to_string(node % 50)},
                           {first + 2, "exit\n" + std::to_string(node % 50)}};
    summary.add(worker_exits);
  }
  const std::string text = summary.text(-1);
  CHECK(text.size() < 2'500);  // control characters take four bytes
  CHECK(std::count(text.begin(), text.end(), '\n') < 6);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find(" and 192 more failed too (") != std::string::npos);
  CHECK(text.find("failed in other ways") != std::string::npos);
}

}  // namespace
}  // namespace ddprun::rendezvous
