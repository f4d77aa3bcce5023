// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/hangup_watch.h"

#include <array>
#include <atomic>
#include <chrono>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "tests/catch.h"

namespace ddprun::tests {
namespace {

using ddp::internal::HangupWatch;
using std::chrono::milliseconds;
using std::chrono::minutes;

TEST_CASE("a rank waits for the end of another's connection up to a limit") {
  std::vector<HangupWatch::Connection> ours;
  std::vector<Fd> theirs;
  for (const int rank : {0, 2}) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours.push_back({rank, Fd(ends[0])});
    theirs.emplace_back(ends[1]);
  }
  std::atomic<int> lost = -1;
  const HangupWatch watch(std::move(ours), [&](int rank) {
    lost = rank;
    lost.notify_all();
  });
  CHECK(!watch.ends_within(0, milliseconds(0)));
  CHECK(!watch.ends_within(2, milliseconds(1)));
  std::thread closer([&] { theirs[1] = Fd(); });
  CHECK(watch.ends_within(2, minutes(1)));
  closer.join();
  lost.wait(-1);
  CHECK(lost == 2);
  CHECK(!watch.ends_within(0, milliseconds(0)));
  CHECK(!watch.ends_within(1, minutes(1)));  // it knows no such connection
}

}  // namespace
}  // namespace ddprun::tests
