// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/client.h"

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/world.h"
#include "tests/unused_port.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;
using std::chrono::milliseconds;

namespace {

reply::Welcome welcome(std::uint64_t received, bool resumed = false) {
  return {"master", resumed, received, milliseconds(50), World::kNever, 0};
}

Notification ready(int round) {
  Layout layout;
  layout.round = round;
  return Ready{layout};
}

/// An agent that has joined, at a socket on which the test itself is the master.
struct Joined {
  Joined() { agent.join(); }

  World world;
  ListenSocket door{world};
  Member agent{world, "agent", door.endpoint()};
};

}  // namespace

TEST_CASE("an agent may start before its master") {
  World world;
  world.port = tests::unused_port();
  Client::Options options = Member::options("early", world.endpoint());
  options.min_nodes = options.max_nodes = 1;
  Member early(world, options);
  early.join();
  CHECK(early.client.is_unreachable());
  world.until([&] {
    early.client.request_waiting_for();
    return contains(early.waiting.back(), "Connection refused");
  });
  CHECK(contains(early.waiting.back(), "the master at " + world.endpoint().text() + ": "));
  world.start_server(RoundSpec{});
  early.next<Ready>();
  CHECK(early.connection_changes.empty());
}

TEST_CASE("a master whose port is closed is given up after the join timeout, with the reason") {
  World world;
  world.port = tests::unused_port();
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
  ListenSocket door(world);
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
    patient.client.request_waiting_for();
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

TEST_CASE_METHOD(Joined, "a web server is not taken for a master") {
  const auto web = door.next();
  web->send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  world.until([&] { return agent.gave_up.has_value(); });
  CHECK(agent.gave_up->code == Errc::protocol);
  CHECK(contains(agent.gave_up->message,
                 "the server at " + door.endpoint().text() + " is not a ddprun master"));
}

TEST_CASE("an agent sends hello and join together") {
  World world;
  ListenSocket door(world);
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

TEST_CASE_METHOD(Joined,
                 "an agent repeats exactly the messages that the master did not count, in order") {
  const auto first = door.next();
  const std::string session = first->greeted().session;
  first->next_message<message::Join>();
  first->answer(welcome(0));
  first->answer(ready(0));
  agent.next<Ready>();
  agent.client.succeed(0);
  agent.fail(1);
  agent.client.succeed(2);
  agent.client.request_waiting_for();
  first->next_message<message::Succeed>();
  first->close();

  const auto second = door.next();
  const message::Hello hello = second->greeted();
  CHECK(hello.session == session);
  CHECK(hello.received == 1);
  second->answer(welcome(2, true));
  CHECK(second->next_message<message::Fail>().round == 1);
  CHECK(second->next_message<message::Succeed>().round == 2);
  agent.client.request_waiting_for();
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
  agent.client.request_waiting_for();
  third->next_message<message::Ask>();
}

TEST_CASE_METHOD(
    Joined,
    "heartbeats have the number of notifications that came, and an answer renews the lease") {
  const auto master = door.next();
  master->greeted();
  reply::Welcome short_lease = welcome(0);
  short_lease.lease = milliseconds(1500);
  master->answer(short_lease);
  CHECK(master->next_message<message::Join>().request.host == "agent");
  CHECK(master->next_message<Heartbeat>().received == 0);
  const BootClock::time_point first_lease = agent.leases.back();
  master->answer(Heartbeat{1});
  world.until([&] { return agent.leases.back() > first_lease; });
  master->answer(ready(0));
  agent.next<Ready>();
  while (master->next_message<Heartbeat>().received == 0) {
    // sent before the notification came
  }
  CHECK(master->next_message<Heartbeat>().received == 1);
  world.until([&] { return agent.leases_over == 1; });
}

TEST_CASE_METHOD(Joined,
                 "the lease runs from the moment the heartbeat was sent, not from the answer") {
  const auto master = door.next();
  master->greeted();
  master->next_message<message::Join>();
  const auto hello_came = BootClock::now();
  master->answer(welcome(1));
  CHECK(master->next_message<Heartbeat>().received == 0);
  const auto beat_came = BootClock::now();
  REQUIRE(agent.leases.size() == 1);
  CHECK(agent.leases[0] <= hello_came + World::kNever);
  master->answer(Heartbeat{1});
  world.until([&] { return agent.leases.size() == 2; });
  CHECK(agent.leases[1] <= beat_came + World::kNever);
}

TEST_CASE_METHOD(Joined,
                 "a node that was given up and joins again has the lease of its new session") {
  reply::Welcome no_beats = welcome(0);
  no_beats.heartbeat = World::kNever;
  const auto first = door.next();
  first->greeted();
  first->answer(no_beats);
  first->answer(ready(0));
  agent.next<Ready>();
  const auto before = agent.leases.back();
  first->close();

  const auto second = door.next();
  second->greeted();
  second->answer(no_beats);  // a session that the master does not know
  world.until([&] { return !agent.rounds_lost.empty(); });
  CHECK(agent.leases.back() == before);  // its workers keep the lease that they had
  agent.join();
  world.until([&] { return agent.leases.back() > before; });
}

TEST_CASE_METHOD(Joined, "unexpected answers do not renew the lease") {
  const auto master = door.next();
  master->greeted();
  master->next_message<message::Join>();
  reply::Welcome no_beats = welcome(1);
  no_beats.heartbeat = World::kNever;
  master->answer(no_beats);
  master->next_message<Heartbeat>();  // it follows the welcome; no other comes for long
  for (int i = 0; i < 3; ++i) master->answer(Heartbeat{1});
  master->answer(ready(0));
  agent.next<Ready>();
  CHECK(agent.leases.size() == 2);
}

TEST_CASE_METHOD(
    Joined,
    "an agent that has sent hello again does not count the old connection's notifications") {
  const auto first = door.next();
  first->greeted();
  first->next_message<message::Join>();
  first->answer(welcome(1));
  first->answer(ready(0));
  agent.next<Ready>();
  const auto second = door.next();  // the first one is silent
  CHECK(second->greeted().received == 1);
  first->answer(Notification(Broken{"a node left", {}, 0, false}));
  agent.next<Broken>();
  first->received.clear();
  CHECK(first->next_message<Heartbeat>().received == 1);
  CHECK(first->next_message<Heartbeat>().received == 1);
  second->answer(welcome(1, true));
  CHECK(second->next_message<Heartbeat>().received == 2);

  SECTION("and takes it once when it is repeated") {
    second->answer(Notification(Broken{"a node left", {}, 0, false}));
    second->answer(ready(1));
    CHECK(agent.next<Ready>().layout.round == 1);
  }
  SECTION("and takes all notifications of a master that is restarted before it repeated any") {
    second->close();
    const auto third = door.next();
    CHECK(third->greeted().received == 2);
    reply::Welcome restarted = welcome(0);
    restarted.master = "another";
    third->answer(restarted);
    world.until([&] { return !agent.rounds_lost.empty(); });
    CHECK(agent.rounds_lost[0] == "the master was restarted");
    third->answer(ready(1));
    CHECK(agent.next<Ready>().layout.round == 1);
  }
}

TEST_CASE_METHOD(Joined, "an agent that gets the job's end drops its attempt to reconnect") {
  const auto first = door.next();
  first->greeted();
  first->next_message<message::Join>();
  first->answer(welcome(1));
  const auto second = door.next();
  first->answer(Notification(Closed{Succeeded{}}));
  agent.next<Closed>();
  second->answer(welcome(0));
  world.until([&] { return first->closed && second->closed; });
  CHECK(agent.rounds_lost.empty());
}

TEST_CASE("a client that is refused closes its line and does not come back") {
  World world(nodes(3, 3));
  Member agent(world, "agent");
  agent.join();
  agent.next<Refused>();
  CHECK_FALSE(agent.client.is_unreachable());
  agent.client.request_waiting_for();
  CHECK(agent.waiting.empty());
  CHECK_FALSE(agent.gave_up);
}

TEST_CASE_METHOD(Joined, "a node that left reconnects until it has reported that it is gone") {
  const auto first = door.next();
  const std::string session = first->greeted().session;
  first->next_message<message::Join>();
  first->answer(welcome(1));
  first->answer(ready(0));
  agent.next<Ready>();
  agent.client.leave("SIGTERM");
  first->next_message<message::Leave>();
  first->close();

  const auto second = door.next();
  CHECK(second->greeted().session == session);
  second->answer(welcome(2, true));
  world.until([&] { return !agent.client.is_unreachable(); });
  agent.client.gone("its ddprun ended");
  const auto gone = second->next_message<message::Gone>();
  CHECK(gone.session == session);
  CHECK(gone.how == "its ddprun ended");
  world.until([&] { return second->closed; });
}

TEST_CASE("a client connects from the given local address") {
  World world;
  ListenSocket door(world);
  Client::Options options = Member::options("agent", door.endpoint());
  options.local = boost::asio::ip::make_address("127.0.0.2");
  Member agent(world, options);
  agent.join();
  CHECK(door.next()->address() == "127.0.0.2");

  options.local = boost::asio::ip::make_address("192.0.2.1");
  Member elsewhere(world, options);
  elsewhere.join();
  world.until([&] {
    elsewhere.client.request_waiting_for();
    return contains(elsewhere.waiting.back(), "cannot connect from 192.0.2.1");
  });
}
