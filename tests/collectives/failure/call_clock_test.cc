// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/call_clock.h"

#include <chrono>

#include "tests/catch.h"

using ddp::internal::CallClock;
using std::chrono::steady_clock;

TEST_CASE("the clock of calls agrees with the steady clock, and never goes back") {
  constexpr auto kTolerance = std::chrono::milliseconds(2);
  CallClock clock;
  const auto end = steady_clock::now() + std::chrono::milliseconds(20);
  int wrong = 0;
  for (auto last = clock.now(); last < end;) {
    const auto before = steady_clock::now();
    const auto now = clock.now();
    const auto after = steady_clock::now();
    if (now < last || now < before - kTolerance || now > after + kTolerance) ++wrong;
    last = now;
  }
  CHECK(wrong == 0);
}
