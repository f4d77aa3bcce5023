// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/hangup_watch.h"

#include <array>
#include <atomic>
#include <sys/socket.h>
#include <utility>

#include "base/fd.h"
#include "tests/catch.h"

using ddp::internal::HangupWatch;
using ddprun::Fd;

TEST_CASE("the end of a watched connection is reported once, the end of the watch not") {
  const bool ends = GENERATE(true, false);
  std::array<int, 2> both{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both.data()) == 0);
  Fd ours(both[0]);
  Fd theirs(both[1]);
  std::atomic<int> reports = 0;
  {
    const HangupWatch watch(std::move(ours), [&] {
      ++reports;
      reports.notify_all();
    });
    if (ends) {
      theirs.reset();
      reports.wait(0);
    }
  }
  CHECK(reports == (ends ? 1 : 0));
}
