// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/liveness.h"

#include <poll.h>

#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kGrace = 1h;  // the timer itself expires only once in this test

struct Guarded {
  std::atomic<std::uint32_t> settings = 0;
  LivenessTimer timer;
  LivenessWatch watch{timer};
  LivenessWatch::Clock::time_point now = LivenessWatch::Clock::now();

  Guarded() { must(timer.open(settings)); }

  /// Sets the timer as the agent does, and lets it expire.
  void expire() {
    timer.set(BootClock::now(), kGrace);
    pollfd expired = {timer.fd(), POLLIN, 0};
    REQUIRE(poll(&expired, 1, 30'000) == 1);
  }
  bool is_unresponsive() { return watch.is_unresponsive(now); }
  bool is_unresponsive_after(std::chrono::nanoseconds time) {
    now += time;
    return is_unresponsive();
  }
};

TEST_CASE("an agent that does not set its timer within the grace is unresponsive, reported once") {
  Guarded agent;
  CHECK_FALSE(agent.is_unresponsive());
  agent.expire();
  CHECK_FALSE(agent.is_unresponsive());
  CHECK(agent.watch.timeout() > 0);
  CHECK_FALSE(agent.is_unresponsive_after(kGrace - 1ns));
  CHECK(agent.is_unresponsive_after(1ns));
  CHECK_FALSE(agent.is_unresponsive());
}

TEST_CASE("an agent that sets or clears its timer within the grace is responsive") {
  Guarded agent;
  agent.expire();
  CHECK_FALSE(agent.is_unresponsive());
  if (GENERATE(true, false)) {
    agent.timer.set(BootClock::now() + 24h, kGrace);
  } else {
    agent.timer.clear();
  }
  CHECK_FALSE(agent.is_unresponsive_after(kGrace));
  CHECK(agent.watch.timeout() == -1);
}

TEST_CASE("a timer that was set within the grace, and has expired since, has a new grace") {
  Guarded agent;
  agent.expire();
  CHECK_FALSE(agent.is_unresponsive());
  agent.expire();  // as if the host was suspended again
  CHECK_FALSE(agent.is_unresponsive_after(kGrace));
  CHECK_FALSE(agent.is_unresponsive());
  CHECK(agent.is_unresponsive_after(kGrace));
}

}  // namespace
}  // namespace ddprun::launcher
