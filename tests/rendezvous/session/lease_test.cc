// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/lease.h"

#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

using namespace std::chrono_literals;

const Lease::Time kStart = Lease::Time(1h);

TEST_CASE("a lease runs from the moment that the answered heartbeat was sent") {
  Lease lease;
  CHECK_FALSE(lease.end(kStart));
  lease.configure(2s, 10s);
  lease.heartbeat_sent(kStart);
  lease.heartbeat_sent(kStart + 2s);
  CHECK(lease.end(lease.heartbeat_answered().value()) == kStart + 10s);
  CHECK(lease.end(lease.heartbeat_answered().value()) == kStart + 12s);
  CHECK_FALSE(lease.heartbeat_answered());

  lease.heartbeat_sent(kStart + 4s);
  lease.configure(2s, 10s);  // a new connection answers no heartbeat of the old one
  CHECK_FALSE(lease.heartbeat_answered());
}

TEST_CASE("a master is silent after two heartbeats, and never without heartbeats") {
  Lease lease;
  lease.configure(2s, 10s);
  lease.received(kStart);
  CHECK_FALSE(lease.is_silent(kStart + 4s));
  CHECK(lease.is_silent(kStart + 4001ms));
  lease.configure(0s, 0s);
  CHECK_FALSE(lease.is_silent(kStart + 1h));
}

TEST_CASE("the node that is silent for longest is overdue first") {
  EvictionQueue queue(eviction_timeout(10s));
  CHECK_FALSE(queue.next());
  queue.add(1, kStart);
  queue.add(2, kStart + 1s);
  queue.received(1, kStart + 2s);
  queue.received(7, kStart + 2s);  // not in it
  CHECK(queue.next() == kStart + 13s);
  CHECK_FALSE(queue.overdue(kStart + 13s - 1ms));
  const auto overdue = queue.overdue(kStart + 13s);
  REQUIRE(overdue);
  CHECK(overdue->node == 2);
  CHECK(overdue->silent_for == 12s);

  queue.remove(2);
  CHECK_FALSE(queue.contains(2));
  CHECK_FALSE(queue.overdue(kStart + 13s));
  queue.all_received(kStart + 20s);
  CHECK(queue.next() == kStart + 32s);
  queue.remove(1);
  CHECK(queue.empty());
}

}  // namespace
}  // namespace ddprun::rendezvous
