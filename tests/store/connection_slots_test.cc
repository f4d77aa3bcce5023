// SPDX-License-Identifier: Apache-2.0
#include "store/connection_slots.h"

#include <vector>

#include "tests/catch.h"

using namespace ddprun::store;

namespace {

constexpr SourceNetwork kMember = 1, kStranger = 2, kOther = 3;

ConnectionLimits limits(std::size_t connections, std::size_t unproven, std::size_t greeted = 100) {
  return {connections, unproven, greeted};
}

std::vector<ConnectionSlots::Id> add(ConnectionSlots& slots, SourceNetwork source, int count) {
  std::vector<ConnectionSlots::Id> ids;
  for (int i = 0; i < count; ++i) ids.push_back(slots.add(source));
  return ids;
}

std::vector<ConnectionSlots::Id> add_clients(ConnectionSlots& slots, SourceNetwork source,
                                             int count) {
  const auto ids = add(slots, source, count);
  for (const auto id : ids) slots.set_client(id);
  return ids;
}

void remove(ConnectionSlots& slots, const std::vector<ConnectionSlots::Id>& ids) {
  for (const auto id : ids) slots.remove(id);
}

/// Makes room `times`; returns the closed connections.
std::vector<ConnectionSlots::Id> make_room(ConnectionSlots& slots, int times) {
  std::vector<ConnectionSlots::Id> gone;
  for (int i = 0; i < times; ++i) {
    const auto next = slots.in_the_way();
    if (!next) break;
    gone.push_back(*next);
    slots.remove(*next);
  }
  return gone;
}

std::vector<ConnectionSlots::Id> ticks(ConnectionSlots& slots, std::uint64_t count) {
  std::vector<ConnectionSlots::Id> overdue;
  for (std::uint64_t i = 0; i < count; ++i) overdue = slots.tick();
  return overdue;
}

}  // namespace

TEST_CASE("a quarter of the descriptors, at most 1,024, is left for the rest of the process") {
  CHECK(ConnectionLimits::of(64).connections == 48);
  CHECK(ConnectionLimits::of(1'000'000).connections == 1'000'000 - 1'024);
  CHECK(ConnectionLimits::of(1'000'000).unproven == 16'384);
  CHECK(ConnectionLimits::of(1'000).unproven == 375);
  CHECK(ConnectionLimits::of(1).unproven == 1);
}

TEST_CASE("the oldest silent connection of the source with most is closed first") {
  ConnectionSlots slots(limits(100, 5));
  const auto quiet = add(slots, kOther, 2);
  const auto many = add(slots, kStranger, 3);
  CHECK(make_room(slots, 2) == std::vector{many[0]});
  CHECK_FALSE(slots.in_the_way());
}

TEST_CASE("if sources have equally many silent connections, the oldest connection is closed") {
  ConnectionSlots slots(limits(100, 3));
  const auto first = slots.add(kStranger);
  slots.add(kMember);
  slots.add(kOther);
  CHECK(slots.in_the_way() == first);
}

TEST_CASE("a client may have one silent connection beside it, without a limit of time") {
  ConnectionSlots slots(limits(100, 3));
  add_clients(slots, kMember, 10);
  add(slots, kMember, 10);
  CHECK_FALSE(slots.in_the_way());
  CHECK_FALSE(slots.is_timed());
  const auto strangers = add(slots, kStranger, 3);
  CHECK(slots.in_the_way() == strangers[0]);
  CHECK(ticks(slots, ConnectionSlots::kUnprovenTicks) == strangers);
}

TEST_CASE("silent connections are timed again when the clients beside them are gone") {
  ConnectionSlots slots(limits(100, 50));
  const auto clients = add_clients(slots, kMember, 2);
  const auto silent = add(slots, kMember, 2);
  ticks(slots, 2 * ConnectionSlots::kUnprovenTicks);
  slots.remove(clients[0]);
  CHECK(slots.is_timed());
  CHECK(slots.tick() == std::vector{silent[0]});
}

TEST_CASE("an agent has less time to say who it is") {
  ConnectionSlots slots(limits(100, 50, 2));
  const auto ids = add(slots, kStranger, 3);
  ticks(slots, ConnectionSlots::kUnprovenTicks - ConnectionSlots::kGreetedTicks);
  slots.set_greeted(ids[0]);
  slots.set_greeted(ids[1]);
  slots.set_member(ids[1]);
  CHECK(ticks(slots, ConnectionSlots::kGreetedTicks - 1).empty());
  const auto overdue = slots.tick();
  CHECK(overdue == std::vector{ids[0]});
}

TEST_CASE("greeted connections are bounded by themselves") {
  ConnectionSlots slots(limits(100, 50, 2));
  const auto ids = add(slots, kStranger, 3);
  for (const auto id : ids) slots.set_greeted(id);
  CHECK(make_room(slots, 5) == std::vector{ids[0]});
}

TEST_CASE("on a full port strangers are closed first: silent ones, then the newest clients") {
  ConnectionSlots slots(limits(10, 100));
  const auto member = slots.add(kMember);
  slots.set_member(member);
  add_clients(slots, kMember, 3);
  const auto silent = add(slots, kStranger, 1);
  const auto clients = add_clients(slots, kStranger, 5);
  CHECK(make_room(slots, 1) == silent);
  add(slots, kMember, 1);
  CHECK(make_room(slots, 1) == std::vector{clients[4]});
}

TEST_CASE("a member's new connection is not mistaken for a stranger's") {
  ConnectionSlots slots(limits(10, 100));
  const auto clients = add_clients(slots, kStranger, 9);
  const auto newcomer = slots.add(kMember);
  for (int i = 0; i < 5; ++i) {
    const auto gone = make_room(slots, 1);
    REQUIRE(gone.size() == 1);
    REQUIRE(gone[0] != newcomer);
    slots.set_client(slots.add(kStranger));
  }
}

TEST_CASE("a port full of members' connections has no room, and evicts none of them") {
  ConnectionSlots slots(limits(4, 100));
  const auto member = slots.add(kMember);
  slots.set_member(member);
  const auto clients = add_clients(slots, kMember, 2);
  const auto silent = slots.add(kMember);
  CHECK_FALSE(slots.in_the_way());
  CHECK_FALSE(slots.has_room());
  SECTION("except silent ones above the number of clients") {
    remove(slots, clients);
    add(slots, kMember, 2);
    CHECK_FALSE(slots.in_the_way());  // it may be about to send
    slots.tick();
    CHECK(slots.in_the_way() == silent);
  }
}

TEST_CASE(
    "workers on the master's own host are never evicted, even if no agent connects from there") {
  ConnectionSlots slots(limits(4, 100));
  slots.add_own_network(kMember);
  slots.add_own_network(kMember);
  add_clients(slots, kMember, 4);
  CHECK_FALSE(slots.in_the_way());
  CHECK_FALSE(slots.least_wanted());
}

TEST_CASE("slots in any state are forgotten when they leave") {
  const auto slots = std::make_shared<ConnectionSlots>(limits(10, 5, 5));
  {
    ConnectionSlot silent(slots, kOther), greeted(slots, kOther), client(slots, kOther),
        member(slots, kOther);
    greeted.is_greeted();
    client.is_client();
    client.is_client();
    member.is_greeted();
    member.is_member();
    CHECK(slots->is_timed());
    const ConnectionSlot moved = std::move(greeted);
  }
  CHECK_FALSE(slots->is_timed());
  CHECK_FALSE(slots->least_wanted());
}

TEST_CASE("an evicted slot's owner closes it") {
  const auto slots = std::make_shared<ConnectionSlots>(limits(1, 5, 5));
  std::optional<ConnectionSlot> slot(std::in_place, slots, kOther);
  slot->on_eviction([&] { slot.reset(); });
  REQUIRE(slots->in_the_way());
  slots->evict(*slots->in_the_way());
  CHECK_FALSE(slot);
  CHECK(slots->has_room());
}
