// SPDX-License-Identifier: Apache-2.0
#include "agent/job_reporter.h"

#include <string>

#include "base/log.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::agent {
namespace {

rendezvous::Layout layout_of(int round, int restarts) {
  rendezvous::Layout layout;
  layout.round = round;
  layout.restarts = restarts;
  return layout;
}

TEST_CASE("a round is reported as a restart only if one was counted") {
  JobSpec job;
  job.max_restarts = 3;
  Events events;
  JobReporter reporter(job, events);
  std::string said;
  log::set_writer([&said](std::string_view line) { said = line; });
  reporter.round_started(layout_of(2, 1), {});
  SECTION("a restart was counted") {
    reporter.worker_failed();
    reporter.round_started(layout_of(3, 2), {});
    CHECK(tests::contains(said, "restart 2 of 3: round 3 with "));
  }
  SECTION("the node was lost when its worker failed") {
    reporter.worker_failed();
    rendezvous::Failure failure;
    failure.pid = 1;
    failure.wait_status = 7 << 8;
    reporter.failure_dropped(failure, 2);
    CHECK(tests::contains(said,
                          "it costs no restart, as this node or its master was lost then: "
                          "rank 0 failed first: exit 7 "));
    reporter.round_started(layout_of(3, 1), {});
    CHECK_FALSE(tests::contains(said, "restart"));
    CHECK(tests::contains(said, "round 3 with "));
  }
  log::set_writer({});
}

}  // namespace
}  // namespace ddprun::agent
