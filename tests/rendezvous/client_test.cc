// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client.h"

#include <algorithm>

#include "rendezvous/addresses.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/rendezvous/network.h"
#include "tests/rendezvous/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kShortLease{300};

reply::Welcome welcome(std::uint64_t received, bool resumed = false) {
  return {"master", resumed, received, milliseconds(50), World::kNever, 0};
}

Letter ready(int round) {
  Layout layout;
  layout.round = round;
  return Ready{layout};
}

/// Two members of one round: "far", beyond a network, and "near".
struct Couple {
  explicit Couple(milliseconds lease, int max_restarts = 0)
      : world(spec(max_restarts), lease), network(world) {
    far.join();
    near.join();
    CHECK(far.next<Ready>().layout.node_count == 2);
    near.next<Ready>();
  }

  static RoundSpec spec(int max_restarts) {
    RoundSpec spec = nodes(2, 2);
    spec.max_restarts = max_restarts;
    return spec;
  }

  World world;
  Network network;
  Member far{world, "far", network.endpoint()};
  Member near{world, "near"};
};

bool same_events(const std::vector<std::string>& history, std::vector<std::string> expected) {
  return std::equal(history.begin(), history.end(), expected.begin(), expected.end());
}

}  // namespace

TEST_CASE("a connection that breaks and comes back is noticed by nobody else") {
  Couple couple(World::kNever);
  couple.network.break_members_ends();
  couple.world.until([&] { return couple.far.line_changes.size() == 2; });
  CHECK(contains(couple.far.line_changes[0],
                 "lost the master at " + couple.network.endpoint().text() + " (connection"));
  CHECK(contains(couple.far.line_changes[1], "is there again after "));
  couple.world.until([&] { return couple.far.welcomes.size() == 2; });
  CHECK(couple.far.welcomes[1].resumed);

  couple.far.client.succeed(0);
  couple.near.client.succeed(0);
  CHECK(std::holds_alternative<Succeeded>(couple.far.next<Closed>().ending));
  CHECK(std::holds_alternative<Succeeded>(couple.near.next<Closed>().ending));
  CHECK(couple.far.rounds_lost.empty());
  CHECK(couple.far.leases_over == 0);
}

TEST_CASE("a message that is lost on the way arrives when the line is there again") {
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

TEST_CASE("letters that are lost on the way arrive when the line is there again, in order, once") {
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
  CHECK(couple.far.letters.empty());
}

TEST_CASE("a master that is silent is tried anew, and the old line is good again if it speaks") {
  Couple couple(World::kNever);
  couple.network.stall();
  couple.world.until([&] { return couple.network.connections() == 2; });
  CHECK(couple.far.client.out_of_touch());
  REQUIRE(couple.far.line_changes.size() == 1);
  CHECK(contains(couple.far.line_changes[0], "is silent for "));
  couple.network.heal(0);
  couple.world.until([&] { return !couple.far.client.out_of_touch(); });
  CHECK(contains(couple.far.line_changes[1], "is there again after "));
  couple.network.heal();
  couple.far.client.succeed(0);
  couple.near.client.succeed(0);
  couple.far.next<Closed>();
  CHECK(couple.near.rounds_lost.empty());
}

TEST_CASE("a letter that comes over the old line and over the new one counts once") {
  Couple couple(World::kNever, 5);
  couple.network.stall();
  couple.near.fail(0);
  couple.near.next<Broken>();
  // The new connection's hello is on its way, and counts one letter.
  couple.world.until([&] { return couple.network.connections() == 2; });
  couple.network.heal(0);
  couple.far.next<Broken>();
  couple.network.heal();
  couple.world.until([&] { return couple.far.welcomes.size() == 2; });
  CHECK(couple.far.welcomes[1].resumed);
  couple.far.client.ask();
  couple.world.until([&] { return !couple.far.waiting.empty(); });
  CHECK(couple.far.letters.empty());

  // Both sides count the same again: the next letter that is lost is repeated.
  couple.near.join();
  couple.network.swallow();
  couple.far.join();
  couple.network.break_members_ends();
  CHECK(couple.far.next<Ready>().layout.round == 1);
  couple.near.next<Ready>();
}

TEST_CASE("a node whose attempt to come back took too long is not gone when the attempt is heard") {
  Couple couple(World::kNever);
  couple.network.stall();
  // The first attempt is called off, and the second one waits, too.
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

TEST_CASE("a node that is out of touch kills its workers before the others go on without it") {
  Couple couple(kShortLease);
  couple.world.history.clear();
  couple.network.stall();
  CHECK(contains(couple.near.next<Broken>().reason, "silent for "));
  CHECK(same_events(couple.world.history, {"far: lease over", "near: letter"}));
  CHECK(couple.far.client.out_of_touch());
  CHECK_FALSE(couple.far.gave_up);
}

TEST_CASE("a node that was given up learns it when it comes back, and joins the next round") {
  Couple couple(kShortLease);
  couple.network.stall();
  couple.near.next<Broken>();
  couple.near.join();
  couple.network.heal();
  couple.world.until([&] { return !couple.far.rounds_lost.empty(); });
  CHECK(couple.far.rounds_lost[0] == "the master had given this node up");
  couple.far.join();
  CHECK(couple.far.next<Ready>().layout.round == 1);
  CHECK(couple.near.next<Ready>().layout.round == 1);
}

TEST_CASE("a master that is started anew at its port goes on from the last round it is told") {
  Couple couple(World::kNever, 3);
  couple.far.fail(0);
  for (Member* member : {&couple.far, &couple.near}) {
    member->next<Broken>();
    member->join();
  }
  for (Member* member : {&couple.far, &couple.near}) CHECK(member->next<Ready>().layout.round == 1);

  couple.world.server.reset();
  couple.world.until(
      [&] { return couple.far.client.out_of_touch() && couple.near.client.out_of_touch(); });
  couple.world.start_server(Couple::spec(3), World::kNever);
  for (Member* member : {&couple.far, &couple.near}) {
    couple.world.until([&] { return !member->rounds_lost.empty(); });
    CHECK(member->rounds_lost[0] == "the master was started anew");
    member->join();
  }
  for (Member* member : {&couple.far, &couple.near}) {
    const Layout layout = member->next<Ready>().layout;
    CHECK(layout.round == 2);
    CHECK(layout.restarts == 1);
    CHECK(layout.node_count == 2);
  }
}

TEST_CASE("a node that waits for a round asks a master that is started anew again by itself") {
  World world(nodes(2, 2));
  Member early(world, "early");
  early.join(3);
  world.until([&] { return !early.welcomes.empty(); });
  world.server.reset();
  world.until([&] { return early.client.out_of_touch(); });
  world.start_server(nodes(2, 2));
  Member late(world, "late");
  late.join(2);
  CHECK(early.next<Ready>().layout.world_size == 5);
  CHECK(early.rounds_lost.empty());
}

TEST_CASE("an agent may be there before its master") {
  World world;
  world.port = must(free_port(boost::asio::ip::address_v4::loopback()));
  Client::Options options = Member::options("early", world.endpoint());
  options.min_nodes = options.max_nodes = 1;
  Member early(world, options);
  early.join();
  CHECK(early.client.out_of_touch());
  world.until([&] {
    early.client.ask();
    return contains(early.waiting.back(), "Connection refused");
  });
  CHECK(contains(early.waiting.back(), "the master at " + world.endpoint().text() + ": "));
  world.start_server(RoundSpec{});
  early.next<Ready>();
  CHECK(early.line_changes.empty());
}

TEST_CASE("a master whose port is closed is given up after the join timeout, with the reason") {
  World world;
  world.port = must(free_port(boost::asio::ip::address_v4::loopback()));
  Client::Options options = Member::options("alone", world.endpoint());
  options.join_timeout = milliseconds(200);
  Member alone(world, options);
  alone.join();
  world.until([&] { return alone.gave_up.has_value(); });
  CHECK(alone.gave_up->code == Errc::timed_out);
  CHECK(contains(alone.gave_up->message, "(--join_timeout) waiting for the master at " +
                                             world.endpoint().text() + ": Connection refused"));
}

TEST_CASE("a port that accepts and never answers is given up after the join timeout") {
  World world;
  Door door(world);
  Client::Options options = Member::options("alone", door.endpoint());
  options.join_timeout = milliseconds(200);
  Member alone(world, options);
  alone.join();
  const auto silent = door.next();
  CHECK(silent->greeted().host == "alone");
  world.until([&] { return alone.gave_up.has_value(); });
  CHECK(alone.gave_up->code == Errc::timed_out);
  CHECK(contains(alone.gave_up->message, ": no answer yet"));
  world.until([&] { return silent->closed; });
}

TEST_CASE("a name that does not resolve is tried again until it is given up") {
  World world;
  Client::Options options = Member::options("alone", {"no-such-host.invalid", 29500});
  Member patient(world, options);
  patient.join();
  world.until([&] {
    patient.client.ask();
    return contains(patient.waiting.back(), "does not resolve");
  });
  CHECK_FALSE(patient.gave_up);

  options.join_timeout = milliseconds(1);
  Member hasty(world, options);
  hasty.join();
  world.until([&] { return hasty.gave_up.has_value(); });
  CHECK(hasty.gave_up->code == Errc::timed_out);
  CHECK(contains(hasty.gave_up->message, "the master at no-such-host.invalid:29500: "));
}

TEST_CASE("what answers like a web server is no master") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto web = door.next();
  web->send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  world.until([&] { return agent.gave_up.has_value(); });
  CHECK(agent.gave_up->code == Errc::protocol);
  CHECK(contains(agent.gave_up->message,
                 "what answers at " + door.endpoint().text() + " is no ddprun master"));
}

TEST_CASE("an agent says who it is and asks for its place in one breath") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.request.node_rank = 1;
  agent.join(8);
  const auto master = door.next();
  const message::Hello hello = master->greeted();
  CHECK(hello.run_id == "job");
  CHECK(hello.min_nodes == 2);
  CHECK(hello.max_nodes == 2);
  CHECK(hello.host == "agent");
  CHECK(hello.received == 0);
  CHECK(hello.session.size() >= 16);
  const JoinRequest request = master->next_message<message::Join>().request;
  CHECK(request.local_size == 8);
  CHECK(request.node_rank == 1);
}

TEST_CASE("an agent repeats exactly what the master did not count, in order") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto first = door.next();
  const std::string session = first->greeted().session;
  first->next_message<message::Join>();
  first->answer(welcome(0));
  first->answer(ready(0));
  agent.next<Ready>();
  agent.client.succeed(0);
  agent.fail(1);
  agent.client.succeed(2);
  agent.client.ask();
  first->next_message<message::Succeed>();
  first->close();

  const auto second = door.next();
  const message::Hello hello = second->greeted();
  CHECK(hello.session == session);
  CHECK(hello.received == 1);
  second->answer(welcome(2, true));
  CHECK(second->next_message<message::Fail>().round == 1);
  CHECK(second->next_message<message::Succeed>().round == 2);
  agent.client.ask();
  second->next_message<message::Ask>();
  second->answer(Heartbeat{3});
  second->answer(reply::Waiting{"the others"});
  world.until([&] { return !agent.waiting.empty(); });
  CHECK(agent.waiting[0] == "the others");
  second->close();

  const auto third = door.next();
  third->greeted();
  third->answer(welcome(3, true));
  CHECK(third->next_message<message::Succeed>().round == 2);
  agent.client.ask();
  third->next_message<message::Ask>();
}

TEST_CASE("heartbeats tell how many letters have come, and an answer renews the lease") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto master = door.next();
  master->greeted();
  reply::Welcome short_lease = welcome(0);
  short_lease.lease = kShortLease;
  master->answer(short_lease);
  CHECK(master->next_message<message::Join>().request.host == "agent");
  CHECK(master->next_message<Heartbeat>().received == 0);
  master->answer(Heartbeat{1});
  master->answer(ready(0));
  agent.next<Ready>();
  for (int i = 0; i < 3; ++i) {
    CHECK(master->next_message<Heartbeat>().received == 1);
    master->answer(Heartbeat{1});
  }
  CHECK(agent.leases_over == 0);
  world.until([&] { return agent.leases_over == 1; });
}

TEST_CASE("the lease runs from the moment the agent spoke, not from the answer") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto master = door.next();
  master->greeted();
  master->next_message<message::Join>();
  const auto hello_came = std::chrono::steady_clock::now();
  master->answer(welcome(1));
  CHECK(master->next_message<Heartbeat>().received == 0);
  const auto beat_came = std::chrono::steady_clock::now();
  REQUIRE(agent.leases.size() == 1);
  CHECK(agent.leases[0] <= hello_came + World::kNever);
  master->answer(Heartbeat{1});
  world.until([&] { return agent.leases.size() == 2; });
  CHECK(agent.leases[1] <= beat_came + World::kNever);
}

TEST_CASE("answers that nobody asked for do not renew the lease") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto master = door.next();
  master->greeted();
  master->next_message<message::Join>();
  reply::Welcome no_beats = welcome(1);
  no_beats.heartbeat = World::kNever;
  master->answer(no_beats);
  master->next_message<Heartbeat>();  // with the welcome, and no other for long
  for (int i = 0; i < 3; ++i) master->answer(Heartbeat{1});
  master->answer(ready(0));
  agent.next<Ready>();
  CHECK(agent.leases.size() == 2);
}

TEST_CASE("an agent that says hello again holds back what came over the old line meanwhile") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto first = door.next();
  first->greeted();
  first->next_message<message::Join>();
  first->answer(welcome(1));
  first->answer(ready(0));
  agent.next<Ready>();
  const auto second = door.next();  // the first one is silent
  CHECK(second->greeted().received == 1);
  first->answer(Letter(Broken{"a node left", {}, 0, false}));
  agent.next<Broken>();
  first->received.clear();
  CHECK(first->next_message<Heartbeat>().received == 1);
  CHECK(first->next_message<Heartbeat>().received == 1);
  second->answer(welcome(1, true));
  CHECK(second->next_message<Heartbeat>().received == 2);

  SECTION("and takes it once when it is repeated") {
    second->answer(Letter(Broken{"a node left", {}, 0, false}));
    second->answer(ready(1));
    CHECK(agent.next<Ready>().layout.round == 1);
  }
  SECTION("and takes all letters of a master that is started anew before it repeated any") {
    second->close();
    const auto third = door.next();
    CHECK(third->greeted().received == 2);
    reply::Welcome anew = welcome(0);
    anew.master = "another";
    third->answer(anew);
    world.until([&] { return !agent.rounds_lost.empty(); });
    CHECK(agent.rounds_lost[0] == "the master was started anew");
    third->answer(ready(1));
    CHECK(agent.next<Ready>().layout.round == 1);
  }
}

TEST_CASE("an agent that hears the job's end drops its attempt to come back") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto first = door.next();
  first->greeted();
  first->next_message<message::Join>();
  first->answer(welcome(1));
  const auto second = door.next();
  first->answer(Letter(Closed{Succeeded{}}));
  agent.next<Closed>();
  second->answer(welcome(0));
  world.until([&] { return first->closed && second->closed; });
  CHECK(agent.rounds_lost.empty());
}

TEST_CASE("a node on the master's own host loses no lease to a master that is in its process") {
  World world(nodes(2, 2), kShortLease);
  Client::Options options = Member::options("host", world.endpoint());
  options.hosted = world.server.get();
  Member host(world, options);
  host.request.hosting = host.request.is_host = true;
  Network network(world);
  Member guest(world, "guest", network.endpoint());
  host.join();
  guest.join();
  CHECK(host.next<Ready>().layout.guests == 1);
  guest.next<Ready>();
  network.stall();
  CHECK(contains(host.next<Broken>().reason, "silent for "));
  CHECK(guest.leases_over == 1);
  CHECK(host.leases_over == 0);
}

TEST_CASE("a client that is refused closes its line and does not come back") {
  World world(nodes(3, 3));
  Member agent(world, "agent");
  agent.join();
  agent.next<Refused>();
  CHECK_FALSE(agent.client.out_of_touch());
  agent.client.ask();
  CHECK(agent.waiting.empty());
  CHECK_FALSE(agent.gave_up);
}

TEST_CASE("a node that left does not come back when its line breaks") {
  World world;
  Door door(world);
  Member agent(world, "agent", door.endpoint());
  agent.join();
  const auto master = door.next();
  master->greeted();
  master->next_message<message::Join>();
  master->answer(welcome(1));
  master->answer(ready(0));
  agent.next<Ready>();
  agent.client.leave();
  master->next_message<message::Leave>();
  master->close();
  agent.client.ask();
  world.until([&] {
    agent.client.ask();
    return !agent.waiting.empty();
  });
  CHECK_FALSE(agent.client.out_of_touch());
  CHECK(agent.line_changes.empty());
}

TEST_CASE("a client connects from the address it is told to") {
  World world;
  Door door(world);
  Client::Options options = Member::options("agent", door.endpoint());
  options.local = boost::asio::ip::make_address("127.0.0.2");
  Member agent(world, options);
  agent.join();
  CHECK(door.next()->address() == "127.0.0.2");

  options.local = boost::asio::ip::make_address("192.0.2.1");
  Member elsewhere(world, options);
  elsewhere.join();
  world.until([&] {
    elsewhere.client.ask();
    return contains(elsewhere.waiting.back(), "cannot connect from 192.0.2.1");
  });
}
