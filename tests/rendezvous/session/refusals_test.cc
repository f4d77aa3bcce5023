// SPDX-License-Identifier: Apache-2.0
// Agents that the server refuses, and the reasons they get.
#include "rendezvous/session/server.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/rendezvous/session/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;

TEST_CASE("an agent of another job is refused on both sides, and does not learn this job's id") {
  World world(nodes(2, 2));
  Client::Options options = Member::options("stray", world.endpoint());
  options.run_id = "other";
  Member agent(world, options);
  agent.join(1);
  CHECK(agent.next<Refused>().sentence == "it belongs to another job than 'other' (--rdzv_id)");
  CHECK(world.logged("refused stray (127.0.0.1): it belongs to another job than 'other'"));
}

TEST_CASE("an agent with other numbers of nodes is refused on both sides, naming both") {
  World world(nodes(2, 4));
  Member agent(world, "stray");
  agent.join(1);
  CHECK(agent.next<Refused>().sentence == "its job has --nnodes 2:4, this node was started with 2");
  CHECK(world.logged("refused stray (127.0.0.1): its job has --nnodes 2:4"));
}

TEST_CASE("a node rank that is taken or out of range is refused on both sides") {
  World world(nodes(2, 2));
  Member first(world, "first"), second(world, "second"), third(world, "third");
  first.request.node_rank = second.request.node_rank = 1;
  third.request.node_rank = 2;
  first.join();
  world.until([&] { return !first.welcomes.empty(); });
  second.join();
  third.join();
  CHECK(contains(second.next<Refused>().sentence, "1"));
  CHECK(contains(third.next<Refused>().sentence, "2"));
  CHECK(world.logged("refused second: "));
  CHECK(world.logged("refused third: "));
  CHECK_FALSE(world.logged("refused first"));
}

TEST_CASE("another protocol version is refused on both sides, naming both versions") {
  World world(RoundSpec{});
  Peer stranger(world);
  stranger.send(std::string("ddprun\x00\x63", 8));
  const std::string sentence = stranger.next_notification<Refused>().sentence;
  const std::string versions =
      "its protocol version is 99, the master's " + std::to_string(kProtocolVersion) + ": ";
  CHECK(contains(sentence, versions));
  CHECK(world.logged("refused a node at 127.0.0.1: " + versions));
}

TEST_CASE("a refused host's name cannot steer the terminal of the master's user") {
  World world(RoundSpec{});
  Peer stranger(world);
  stranger.send(greeting() +
                encode(message::Hello{"\x1b[2J", 1, 1, "evil\x1b]0;owned\x07", "s", 0}));
  stranger.next_notification<Refused>();
  CHECK(world.logged("refused evil\\x1b]0;owned\\x07"));
  CHECK_FALSE(world.logged("\x1b"));
}

TEST_CASE("an agent that sends an invalid message is refused, and leaves the round") {
  World world(nodes(1, 2));
  Client::Options options = Member::options("stays", world.endpoint());
  options.min_nodes = 1;
  Member stays(world, options);
  Peer mad(world);
  mad.send(greeting() + encode(message::Hello{"job", 1, 2, "mad", "s", 0}));
  mad.next_reply<reply::Welcome>();
  stays.join();
  stays.next<Ready>();
  mad.join();
  CHECK_FALSE(stays.next<Broken>().root_cause);
  stays.join();
  CHECK(stays.next<Ready>().layout.node_count == 2);
  mad.next_notification<Ready>();

  mad.send(std::string("\x00\x00\x00\x02{}", 6));
  CHECK(contains(mad.next_notification<Refused>().sentence, "it cannot decode a message"));
  CHECK(contains(stays.next<Broken>().reason, "(peer) left"));
  CHECK(world.logged("it cannot decode a message"));
  stays.join();  // and waits: the workers of the other may run
  stays.client.request_waiting_for();
  world.until([&] { return !stays.waiting.empty(); });
  CHECK(stays.notifications.empty());
}

TEST_CASE("messages of a refused agent are ignored") {
  World world(RoundSpec{});
  Peer stranger(world);
  stranger.send(greeting() + encode(message::Hello{"other", 1, 1, "stray", "s", 0}));
  stranger.next_notification<Refused>();
  stranger.say(message::Hello{"job", 1, 1, "stray", "s", 0});
  stranger.join();
  stranger.say(message::Ask{});
  stranger.end();
  world.until([&] { return stranger.closed; });
  CHECK(stranger.received.empty());
}
