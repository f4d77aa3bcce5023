// SPDX-License-Identifier: Apache-2.0
#include "store/guests.h"

#include <vector>

#include "tests/catch.h"

using namespace ddprun::store;

namespace {

constexpr Site kMember = 1, kStranger = 2, kOther = 3;

GuestLimits limits(std::size_t connections, std::size_t unproven, std::size_t greeted = 100) {
  return {connections, unproven, greeted};
}

std::vector<Guests::Id> add(Guests& guests, Site site, int count) {
  std::vector<Guests::Id> ids;
  for (int i = 0; i < count; ++i) ids.push_back(guests.add(site));
  return ids;
}

std::vector<Guests::Id> add_clients(Guests& guests, Site site, int count) {
  const auto ids = add(guests, site, count);
  for (const auto id : ids) guests.set_client(id);
  return ids;
}

void remove(Guests& guests, const std::vector<Guests::Id>& ids) {
  for (const auto id : ids) guests.remove(id);
}

/// Makes room `times`; returns the closed connections.
std::vector<Guests::Id> make_room(Guests& guests, int times) {
  std::vector<Guests::Id> gone;
  for (int i = 0; i < times; ++i) {
    const auto next = guests.in_the_way();
    if (!next) break;
    gone.push_back(*next);
    guests.remove(*next);
  }
  return gone;
}

std::vector<Guests::Id> ticks(Guests& guests, std::uint64_t count) {
  std::vector<Guests::Id> overdue;
  for (std::uint64_t i = 0; i < count; ++i) overdue = guests.tick();
  return overdue;
}

}  // namespace

TEST_CASE("a quarter of the descriptors, at most 1,024, is left for the rest of the process") {
  CHECK(GuestLimits::of(64).connections == 48);
  CHECK(GuestLimits::of(1'000'000).connections == 1'000'000 - 1'024);
  CHECK(GuestLimits::of(1'000'000).unproven == 16'384);
  CHECK(GuestLimits::of(1'000).unproven == 375);
  CHECK(GuestLimits::of(1).unproven == 1);
}

TEST_CASE("the oldest silent connection of the site with most is closed first") {
  Guests guests(limits(100, 5));
  const auto quiet = add(guests, kOther, 2);
  const auto many = add(guests, kStranger, 3);
  CHECK(make_room(guests, 2) == std::vector{many[0]});
  CHECK_FALSE(guests.in_the_way());
}

TEST_CASE("if sites have equally many silent connections, the oldest connection is closed") {
  Guests guests(limits(100, 3));
  const auto first = guests.add(kStranger);
  guests.add(kMember);
  guests.add(kOther);
  CHECK(guests.in_the_way() == first);
}

TEST_CASE("a client may have one silent connection beside it, without a limit of time") {
  Guests guests(limits(100, 3));
  add_clients(guests, kMember, 10);
  add(guests, kMember, 10);
  CHECK_FALSE(guests.in_the_way());
  CHECK_FALSE(guests.is_timed());
  const auto strangers = add(guests, kStranger, 3);
  CHECK(guests.in_the_way() == strangers[0]);
  CHECK(ticks(guests, Guests::kUnprovenTicks) == strangers);
}

TEST_CASE("silent connections are timed again when the clients beside them are gone") {
  Guests guests(limits(100, 50));
  const auto clients = add_clients(guests, kMember, 2);
  const auto silent = add(guests, kMember, 2);
  ticks(guests, 2 * Guests::kUnprovenTicks);
  guests.remove(clients[0]);
  CHECK(guests.is_timed());
  CHECK(guests.tick() == std::vector{silent[0]});
}

TEST_CASE("an agent has less time to say who it is") {
  Guests guests(limits(100, 50, 2));
  const auto ids = add(guests, kStranger, 3);
  ticks(guests, Guests::kUnprovenTicks - Guests::kGreetedTicks);
  guests.set_greeted(ids[0]);
  guests.set_greeted(ids[1]);
  guests.set_member(ids[1]);
  CHECK(ticks(guests, Guests::kGreetedTicks - 1).empty());
  const auto overdue = guests.tick();
  CHECK(overdue == std::vector{ids[0]});
}

TEST_CASE("greeted connections are bounded by themselves") {
  Guests guests(limits(100, 50, 2));
  const auto ids = add(guests, kStranger, 3);
  for (const auto id : ids) guests.set_greeted(id);
  CHECK(make_room(guests, 5) == std::vector{ids[0]});
}

TEST_CASE("on a full port strangers are closed first: silent ones, then the newest clients") {
  Guests guests(limits(10, 100));
  const auto member = guests.add(kMember);
  guests.set_member(member);
  add_clients(guests, kMember, 3);
  const auto silent = add(guests, kStranger, 1);
  const auto clients = add_clients(guests, kStranger, 5);
  CHECK(make_room(guests, 1) == silent);
  add(guests, kMember, 1);
  CHECK(make_room(guests, 1) == std::vector{clients[4]});
}

TEST_CASE("a member's new connection is not mistaken for a stranger's") {
  Guests guests(limits(10, 100));
  const auto clients = add_clients(guests, kStranger, 9);
  const auto newcomer = guests.add(kMember);
  for (int i = 0; i < 5; ++i) {
    const auto gone = make_room(guests, 1);
    REQUIRE(gone.size() == 1);
    REQUIRE(gone[0] != newcomer);
    guests.set_client(guests.add(kStranger));
  }
}

TEST_CASE("a port full of members' connections has no room, and evicts none of them") {
  Guests guests(limits(4, 100));
  const auto member = guests.add(kMember);
  guests.set_member(member);
  const auto clients = add_clients(guests, kMember, 2);
  const auto silent = guests.add(kMember);
  CHECK_FALSE(guests.in_the_way());
  CHECK_FALSE(guests.has_room());
  SECTION("except silent ones above the number of clients") {
    remove(guests, clients);
    add(guests, kMember, 2);
    CHECK_FALSE(guests.in_the_way());  // it may be about to send
    guests.tick();
    CHECK(guests.in_the_way() == silent);
  }
}

TEST_CASE(
    "workers on the master's own host are never evicted, even if no agent connects from there") {
  Guests guests(limits(4, 100));
  guests.add_home(kMember);
  guests.add_home(kMember);
  add_clients(guests, kMember, 4);
  CHECK_FALSE(guests.in_the_way());
  CHECK_FALSE(guests.least_wanted());
}

TEST_CASE("guests in any state are forgotten when they leave") {
  const auto guests = std::make_shared<Guests>(limits(10, 5, 5));
  {
    Guest silent(guests, kOther), greeted(guests, kOther), client(guests, kOther),
        member(guests, kOther);
    greeted.is_greeted();
    client.is_client();
    client.is_client();
    member.is_greeted();
    member.is_member();
    CHECK(guests->is_timed());
    const Guest moved = std::move(greeted);
  }
  CHECK_FALSE(guests->is_timed());
  CHECK_FALSE(guests->least_wanted());
}

TEST_CASE("an evicted guest's owner closes it") {
  const auto guests = std::make_shared<Guests>(limits(1, 5, 5));
  std::optional<Guest> guest(std::in_place, guests, kOther);
  guest->on_eviction([&] { guest.reset(); });
  REQUIRE(guests->in_the_way());
  guests->evict(*guests->in_the_way());
  CHECK_FALSE(guest);
  CHECK(guests->has_room());
}
