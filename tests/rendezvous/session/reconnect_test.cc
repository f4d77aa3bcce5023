// SPDX-License-Identifier: Apache-2.0
// Tests agents and a server that lose each other: lost messages, nodes that are given up, and a
// restarted master.
#include <algorithm>

#include "rendezvous/session/client.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;
using std::chrono::milliseconds;

namespace {

/// A test on a busy machine does not stand still for as long.
constexpr milliseconds kShortLease{1500};

/// Two members of one round: "far", beyond a network, and "near". With leases near is in the
/// server's process, and so has none: however long this test stands still, only far is given up.
struct Couple {
  explicit Couple(milliseconds lease, int max_restarts = 0)
      : world(spec(max_restarts), lease), network(world), near(world, near_options(world, lease)) {
    near.request.is_host = lease < World::kNever;
    far.join();
    near.join();
    CHECK(far.next<Ready>().layout.node_count == 2);
    near.next<Ready>();
  }

  static Client::Options near_options(const World& world, milliseconds lease) {
    Client::Options options = Member::options("near", world.endpoint());
    if (lease < World::kNever) options.hosted = world.server.get();
    return options;
  }

  static RoundSpec spec(int max_restarts) {
    RoundSpec spec = nodes(2, 2);
    spec.max_restarts = max_restarts;
    return spec;
  }

  World world;
  Network network;
  Member far{world, "far", network.endpoint()};
  Member near;
};

/// The index of the n-th such entry of the history, from 1; the end if there is none.
size_t place_of(const std::vector<std::string>& history, const std::string& event, int n) {
  const auto found = std::find_if(history.begin(), history.end(),
                                  [&](const std::string& one) { return one == event && --n == 0; });
  return static_cast<size_t>(found - history.begin());
}

}  // namespace

TEST_CASE("a connection that breaks and comes back is noticed by no other node") {
  Couple couple(World::kNever);
  couple.network.break_members_ends();
  couple.world.until([&] { return couple.far.connection_changes.size() == 2; });
  CHECK(contains(couple.far.connection_changes[0],
                 "lost the master at " + couple.network.endpoint().text() + " (connection"));
  CHECK(contains(couple.far.connection_changes[1], "is reachable again after "));
  couple.world.until([&] { return couple.far.welcomes.size() == 2; });
  CHECK(couple.far.welcomes[1].resumed);

  couple.far.client.succeed(0);
  couple.near.client.succeed(0);
  CHECK(std::holds_alternative<Succeeded>(couple.far.next<Closed>().ending));
  CHECK(std::holds_alternative<Succeeded>(couple.near.next<Closed>().ending));
  CHECK(couple.far.rounds_lost.empty());
  CHECK(couple.far.leases_over == 0);
}

TEST_CASE("a reset on the way, towards any side, is noticed by no other node") {
  Couple couple(World::kNever);
  SECTION("towards both") {
    couple.network.reset();
  }
  SECTION("towards the master alone") {
    couple.network.reset_servers_ends();
  }
  couple.world.until([&] { return couple.far.welcomes.size() == 2; });
  CHECK(couple.far.welcomes[1].resumed);
  couple.far.client.succeed(0);
  couple.near.client.succeed(0);
  CHECK(std::holds_alternative<Succeeded>(couple.far.next<Closed>().ending));
  CHECK(std::holds_alternative<Succeeded>(couple.near.next<Closed>().ending));
  CHECK(couple.far.rounds_lost.empty());
}

TEST_CASE("a message that is lost on the way arrives when the connection is back") {
  Couple couple(World::kNever, 1);
  couple.network.swallow();
  couple.far.fail(0);
  couple.network.break_members_ends();
  CHECK(couple.near.next<Broken>().root_cause->host == "far");
  CHECK(couple.far.next<Broken>().restarts == 1);
  couple.near.join();
  couple.far.join();
  CHECK(couple.near.next<Ready>().layout.restarts == 1);
  CHECK(couple.far.next<Ready>().layout.restarts == 1);
}

TEST_CASE(
    "notifications that are lost on the way arrive when the connection is back, in order, once") {
  Couple couple(World::kNever, 5);
  couple.network.swallow();
  couple.near.fail(0);
  couple.near.next<Broken>();
  couple.near.join();
  couple.network.break_members_ends();
  CHECK(couple.far.next<Broken>().restarts == 1);
  couple.far.join();
  CHECK(couple.far.next<Ready>().layout.round == 1);
  couple.near.next<Ready>();

  couple.network.swallow();
  couple.far.fail(1);
  couple.near.fail(1);
  couple.network.break_members_ends();
  CHECK(couple.far.next<Broken>().restarts == 2);
  couple.far.join();
  couple.near.next<Broken>();
  couple.near.join();
  CHECK(couple.far.next<Ready>().layout.round == 2);
  CHECK(couple.near.next<Ready>().layout.restarts == 2);
  CHECK(couple.far.notifications.empty());
}

TEST_CASE(
    "a silent master is dialed again, and the old connection is used again if an answer comes on "
    "it") {
  Couple couple(World::kNever);
  couple.network.stall();
  couple.world.until([&] { return couple.network.connections() == 2; });
  CHECK(couple.far.client.is_unreachable());
  REQUIRE(couple.far.connection_changes.size() == 1);
  CHECK(contains(couple.far.connection_changes[0], "is silent for "));
  couple.network.heal(0);
  couple.world.until([&] { return !couple.far.client.is_unreachable(); });
  CHECK(contains(couple.far.connection_changes[1], "is reachable again after "));
  couple.network.heal();
  couple.far.client.succeed(0);
  couple.near.client.succeed(0);
  couple.far.next<Closed>();
  CHECK(couple.near.rounds_lost.empty());
}

TEST_CASE("a notification that comes over the old line and over the new one counts once") {
  Couple couple(World::kNever, 5);
  couple.network.stall();
  couple.near.fail(0);
  couple.near.next<Broken>();
  // The new connection's hello is on its way, and counts one notification.
  couple.world.until([&] { return couple.network.connections() == 2; });
  couple.network.heal(0);
  couple.far.next<Broken>();
  couple.network.heal();
  couple.world.until([&] { return couple.far.welcomes.size() == 2; });
  CHECK(couple.far.welcomes[1].resumed);
  couple.far.client.request_waiting_for();
  couple.world.until([&] { return !couple.far.waiting.empty(); });
  CHECK(couple.far.notifications.empty());

  // Both sides count the same again: the next notification that is lost is repeated.
  couple.near.join();
  couple.network.swallow();
  couple.far.join();
  couple.network.break_members_ends();
  CHECK(couple.far.next<Ready>().layout.round == 1);
  couple.near.next<Ready>();
}

TEST_CASE("a node whose attempt to come back took too long is not lost when the attempt arrives") {
  Couple couple(World::kNever);
  couple.network.stall();
  // The first attempt is cancelled, and the second one waits, too.
  couple.world.until([&] { return couple.network.connections() == 3; });
  couple.network.heal(1);
  couple.network.heal();
  couple.world.until([&] { return couple.far.welcomes.size() == 2; });
  CHECK(couple.far.welcomes[1].resumed);
  couple.far.client.succeed(0);
  couple.near.client.succeed(0);
  CHECK(std::holds_alternative<Succeeded>(couple.far.next<Closed>().ending));
  couple.near.next<Closed>();
}

TEST_CASE("an unreachable node kills its workers before the others continue without it") {
  Couple couple(kShortLease);
  couple.network.stall();
  CHECK(contains(couple.near.next<Broken>().reason, "silent for "));
  const auto& history = couple.world.history;
  CHECK(place_of(history, "far: lease over", 1) < place_of(history, "near: notification", 2));
  CHECK(couple.near.leases_over == 0);
  couple.world.until([&] { return couple.far.client.is_unreachable(); });
  CHECK_FALSE(couple.far.gave_up);
}

TEST_CASE("a node that was given up learns it when it comes back, and joins the next round") {
  Couple couple(kShortLease);
  couple.network.stall();
  couple.near.next<Broken>();
  couple.near.join();
  couple.network.heal();
  couple.world.until([&] { return !couple.far.rounds_lost.empty(); });
  CHECK(couple.far.rounds_lost[0] == "the master had declared this node lost");
  couple.far.join();
  CHECK(couple.far.next<Ready>().layout.round == 1);
  CHECK(couple.near.next<Ready>().layout.round == 1);
}

TEST_CASE(
    "a master that is restarted at its port continues from the last round that nodes report") {
  Couple couple(World::kNever, 3);
  couple.far.fail(0);
  for (Member* member : {&couple.far, &couple.near}) {
    member->next<Broken>();
    member->join();
  }
  for (Member* member : {&couple.far, &couple.near}) CHECK(member->next<Ready>().layout.round == 1);

  couple.world.server.reset();
  couple.world.until(
      [&] { return couple.far.client.is_unreachable() && couple.near.client.is_unreachable(); });
  couple.world.start_server(Couple::spec(3), World::kNever);
  for (Member* member : {&couple.far, &couple.near}) {
    couple.world.until([&] { return !member->rounds_lost.empty(); });
    CHECK(member->rounds_lost[0] == "the master was restarted");
    member->join();
  }
  for (Member* member : {&couple.far, &couple.near}) {
    const Layout layout = member->next<Ready>().layout;
    CHECK(layout.round == 2);
    CHECK(layout.restarts == 1);
    CHECK(layout.node_count == 2);
  }
}

TEST_CASE("a node that waits for a round joins a restarted master again by itself") {
  World world(nodes(2, 2));
  Member early(world, "early");
  early.join(3);
  world.until([&] { return !early.welcomes.empty(); });
  world.server.reset();
  world.until([&] { return early.client.is_unreachable(); });
  world.start_server(nodes(2, 2),
                     milliseconds(3000));  // it waits for a lease, as others may have had a round
  Member late(world, "late");
  late.join(2);
  CHECK(early.next<Ready>().layout.world_size == 5);
  CHECK(early.rounds_lost.empty());
}

TEST_CASE("a node in the master's own process has no lease to lose") {
  World world(nodes(2, 2), kShortLease);
  Client::Options options = Member::options("host", world.endpoint());
  options.hosted = world.server.get();
  Member host(world, options);
  host.request.is_host = true;
  Network network(world);
  Member guest(world, "guest", network.endpoint());
  host.join();
  guest.join();
  CHECK(host.next<Ready>().layout.guests == 1);
  guest.next<Ready>();
  network.stall();
  CHECK(contains(host.next<Broken>().reason, "silent for "));
  CHECK(guest.leases_over > 0);
  CHECK(host.leases_over == 0);
}
