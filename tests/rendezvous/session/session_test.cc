// SPDX-License-Identifier: Apache-2.0
// An agent's session at the server: connections that come and go, repeated messages, and the
// lease.
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "rendezvous/session/server.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/rendezvous/session/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;
using std::chrono::milliseconds;

TEST_CASE("the greeting may come one byte at a time") {
  World world(RoundSpec{});
  Peer slow(world);
  for (const char byte : greeting() + encode(message::Hello{"job", 1, 1, "slow", "s", 0}) +
                             encode(message::Join{JoinRequest()})) {
    slow.send(std::string(1, byte));
    world.io.poll();
  }
  CHECK_FALSE(slow.next_reply<reply::Welcome>().resumed);
  slow.next_notification<Ready>();
}

TEST_CASE("a hello that comes twice changes nothing") {
  World world(RoundSpec{});
  Peer agent(world);
  agent.introduce("s");
  const auto welcome = agent.next_reply<reply::Welcome>();
  CHECK(welcome.heartbeat == World::kSoon);
  CHECK(welcome.lease == World::kNever);
  agent.say(message::Hello{"job", 1, 1, "another", "another", 0});
  agent.join();
  agent.next_notification<Ready>();
  agent.say(message::Succeed{0});
  agent.next_notification<Closed>();
}

TEST_CASE("a connection that breaks after its hello leaves the agent its lease") {
  World world(nodes(2, 2));
  Member other(world, "other");
  other.join();
  Peer first(world);
  first.introduce("s", 2);
  first.join();
  other.next<Ready>();
  {
    Peer second(world);
    second.introduce("s", 2);
    CHECK(second.next_reply<reply::Welcome>().resumed);
  }
  Peer third(world);
  third.introduce("s", 2);
  CHECK(third.next_reply<reply::Welcome>().resumed);
  third.next_notification<Ready>();
  CHECK(other.notifications.empty());
  third.say(message::Ask{});
  third.next_reply<reply::Waiting>();
}

TEST_CASE("a line that is closed proves nothing: the agent has its lease") {
  World world(nodes(2, 2), milliseconds(1500));
  Client::Options hosted = Member::options("stays", world.endpoint());
  hosted.hosted = world.server.get();
  Member stays(world, hosted);
  stays.join();
  const auto before = BootClock::now();
  {
    Peer closes(world);
    closes.introduce("s", 2);
    closes.join();
    closes.next_reply<reply::Welcome>();
    stays.next<Ready>();
  }
  CHECK(contains(stays.next<Broken>().reason, "silent for "));
  CHECK(BootClock::now() >= before + milliseconds(1500));
}

TEST_CASE("a guardian proves that its agent is gone, by the session") {
  World world(nodes(2, 2));
  Member stays(world, "stays");
  stays.join();
  Peer agent(world);
  agent.introduce("s", 2);
  agent.join();
  stays.next<Ready>();
  const auto say = [&](const std::string& session) {
    Peer guardian(world);
    guardian.send(greeting());
    guardian.say(message::Gone{session, "its agent was killed by SIGKILL"});
    world.until([&] { return guardian.closed; });
    CHECK(guardian.received.empty());
  };
  say("t");  // no agent's
  agent.say(message::Ask{});
  agent.next_reply<reply::Welcome>();
  agent.next_notification<Ready>();
  agent.next_reply<reply::Waiting>();
  SECTION("when the line was lost before") {
    agent.close();
    say("s");
    CHECK(contains(stays.next<Broken>().reason, "(peer) is gone: its agent was killed by SIGKILL"));
  }
  SECTION("and the agent's earlier messages come first") {
    say("s");
    Failure failure;
    failure.pid = 1;
    failure.wait_status = 3 << 8;
    agent.say(message::Fail{0, failure});
    agent.close();
    CHECK(stays.next<Broken>().root_cause);
    stays.join();  // answered when the other is gone
    CHECK(std::holds_alternative<Failed>(stays.next<Closed>().ending));
  }
}

TEST_CASE("an agent that was lost learns it, even if the first welcome that says so is lost") {
  World world(nodes(1, 1));
  std::string ticket;
  {
    Peer lost(world);
    lost.introduce("s");
    lost.join();
    ticket = lost.next_reply<reply::Welcome>().ticket;
    lost.next_notification<Ready>();
    lost.say(message::Gone{"s", "it was silent"});
    world.until([&] { return lost.closed; });
  }
  for (int i = 0; i < 2; ++i) {
    Peer back(world);
    back.send(greeting() +
              encode(message::Hello{"job", 1, 1, "peer", "s", 1, ticket, ++world.hellos}));
    CHECK_FALSE(back.next_reply<reply::Welcome>().resumed);
  }
}

TEST_CASE("only the server's own process hosts the master") {
  World world(nodes(2, 2));
  Member own(world, "own");
  own.request.hosting = true;
  own.join();
  CHECK(contains(own.next<Refused>().sentence, "it says that it hosts the master"));
  CHECK(world.logged("refused own (127.0.0.1): it says that it hosts the master"));
}

TEST_CASE("a session's second connection takes the place of the first") {
  World world(RoundSpec{});
  Peer first(world);
  first.introduce("s");
  CHECK_FALSE(first.next_reply<reply::Welcome>().resumed);
  first.join();
  first.next_notification<Ready>();

  Peer second(world);
  second.introduce("s", 1, 1);
  const auto welcome = second.next_reply<reply::Welcome>();
  CHECK(welcome.resumed);
  CHECK(welcome.received == 1);
  world.until([&] { return first.closed; });
  second.say(message::Succeed{0});
  second.next_notification<Closed>();
}

TEST_CASE("notifications that a session did not count are repeated in order, and no others") {
  World world(nodes(2, 2));
  Peer first(world);
  first.introduce("s", 2);
  first.next_reply<reply::Welcome>();
  first.join();
  Member other(world, "other");
  other.join();
  other.next<Ready>();
  other.client.gone("its ddprun ended");
  first.next_notification<Ready>();
  first.next_notification<Broken>();

  Peer knows_none(world);
  knows_none.introduce("s", 2, 0);
  knows_none.next_reply<reply::Welcome>();
  CHECK(knows_none.next_notification<Ready>().layout.round == 0);
  knows_none.next_notification<Broken>();
  knows_none.say(message::Ask{});
  knows_none.next_reply<reply::Waiting>();

  Peer knows_one(world);
  knows_one.introduce("s", 2, 1);
  knows_one.next_reply<reply::Welcome>();
  knows_one.next_notification<Broken>();
  knows_one.say(Heartbeat{2});
  CHECK(knows_one.next_reply<Heartbeat>().received == 1);

  Peer knows_all(world);
  knows_all.introduce("s", 2, 0);  // counted notifications are not kept
  knows_all.next_reply<reply::Welcome>();
  knows_all.say(message::Ask{});
  knows_all.next_reply<reply::Waiting>();
}

TEST_CASE("a message that the server counted and one that it did not are distinguished") {
  World world(RoundSpec{});
  Peer agent(world);
  agent.introduce("s");
  CHECK(agent.next_reply<reply::Welcome>().received == 0);
  agent.say(Heartbeat{});
  CHECK(agent.next_reply<Heartbeat>().received == 0);
  agent.say(message::Ask{});
  agent.next_reply<reply::Waiting>();
  agent.join();
  agent.next_notification<Ready>();
  agent.say(Heartbeat{1});
  CHECK(agent.next_reply<Heartbeat>().received == 1);
}

TEST_CASE("a silent agent is lost after its lease, and one that sends heartbeats is not") {
  const bool is_first = GENERATE(true, false);
  World world(nodes(2, 2), milliseconds(1500));
  Peer silent(world);
  Member stays(world, "stays");
  if (!is_first) {
    stays.join();
    world.until([&] { return !stays.welcomes.empty(); });
  }
  silent.introduce("s", 2);
  silent.join();
  if (is_first) stays.join();
  stays.next<Ready>();
  const std::string reason = stays.next<Broken>().reason;
  CHECK(contains(reason, "peer"));
  CHECK(contains(reason, "silent for "));
  CHECK(contains(reason, "(--lease 1.5 s)"));
  CHECK(stays.leases_over == 0);
}

TEST_CASE("the master's own node has no lease") {
  World world(nodes(2, 2), milliseconds(300));
  const auto line = world.server->connect({[](const Result<Reply>&) {}, [] {}});
  line->send(message::Hello{"job", 2, 2, "own", "own", 0});
  JoinRequest request;
  request.host = "own";
  request.is_host = true;
  line->send(message::Join{request});
  Peer silent(world);
  silent.introduce("s", 2);
  silent.join();
  // Both have been silent for as long. A join of the lost node does not count.
  silent.next_reply<reply::Welcome>();
  CHECK(silent.next_notification<Ready>().layout.guests == 1);
  world.until([&] { return silent.closed; });
  world.until([&] { return contains(world.server->waiting_for(), "node 0 (own"); });
}
