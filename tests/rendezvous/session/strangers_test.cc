// SPDX-License-Identifier: Apache-2.0
// Limits of peers that are no nodes of the job.
#include <algorithm>
#include <list>

#include "rendezvous/session/server.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/rendezvous/session/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

/// The length that stands in front of a frame.
std::string frame_of(size_t size) {
  std::string prefix;
  for (const int shift : {24, 16, 8, 0}) prefix += static_cast<char>(size >> shift & 0xff);
  return prefix;
}

message::Hello hello(const std::string& run_id, const std::string& session) {
  return {run_id, 1, 1, "stranger", session, 0};
}

}  // namespace

TEST_CASE("a first message is short, later ones may be long") {
  World world(RoundSpec{});
  Peer stranger(world);
  stranger.send(greeting() + frame_of(kMaxFirstFrame + 1));
  world.until([&] { return stranger.closed; });

  Peer agent(world);
  agent.introduce("s");
  agent.next_reply<reply::Welcome>();
  const std::string beat = encode(Message(Heartbeat{}));
  const std::string body = beat.substr(4) + std::string(kMaxFrame - beat.size() + 4, ' ');
  agent.send(frame_of(body.size()) + body);
  agent.next_reply<Heartbeat>();
}

TEST_CASE("a session of more than 64 characters is refused") {
  World world(RoundSpec{});
  Peer stranger(world);
  stranger.send(greeting() + encode(hello("job", std::string(65, 's'))));
  CHECK(tests::contains(stranger.next_notification<Refused>().sentence, "'session'"));
}

TEST_CASE("log lines that strangers cause are cut and limited") {
  World world(RoundSpec{});
  for (int i = 0; i < 100; ++i) {
    Peer stranger(world);
    stranger.send(greeting() + encode(hello(std::string(2000, '\x1b'), "s")));
    stranger.next_notification<Refused>();
  }
  // A slow host may need more than one period; each ends with the number of the lines left out.
  const auto periods = std::ranges::count_if(world.log, [](const std::string& line) {
    return tests::contains(line, "more lines of this kind");
  });
  CHECK(world.log.size() >= log::LimitedLog::kLines);
  CHECK(world.log.size() <= (periods + 1) * log::LimitedLog::kLines + periods);
  for (const std::string& line : world.log) CHECK(line.size() < log::LimitedLog::kLength + 20);
}

TEST_CASE("an agent is heard between strangers, however many there are") {
  World world(nodes(1, 2));
  Peer agent(world);
  agent.send(greeting() + encode(message::Hello{"job", 1, 2, "agent", "s", 0}));
  agent.next_reply<reply::Welcome>();
  std::list<Peer> strangers;
  for (int i = 0; i < 300; ++i) strangers.emplace_back(world).send(greeting());
  world.settle();

  // Half of the most that is allowed: a whole frame in one read. More short ones are heard.
  const bool is_long = GENERATE(true, false);
  const std::string body = "[" + std::string(is_long ? kMaxFirstFrame / 2 : 0, ' ') + "]";
  for (Peer& stranger : strangers) stranger.send(frame_of(body.size()) + body);
  agent.say(Heartbeat{});
  world.until([&] { return !agent.received.empty(); });
  const auto is_answered = [](const Peer& stranger) { return !stranger.received.empty(); };
  CHECK(std::ranges::count_if(strangers, is_answered) < (is_long ? 30 : 150));
  world.until([&] { return std::ranges::all_of(strangers, is_answered); });
}

TEST_CASE("a first message has few values") {
  World world(nodes(1, 2));
  Peer stranger(world);
  const std::string hello = encode(message::Hello{"job", 1, 2, "a", "s", 0}).substr(4);
  std::string body = hello.substr(0, hello.size() - 1) + ",\"more\":[0";
  while (body.size() + 4 <= kMaxFirstFrame) body += ",0";
  body += "]}";
  stranger.send(greeting() + frame_of(body.size()) + body);
  CHECK(tests::contains(stranger.next_notification<Refused>().sentence, "unknown message type ''"));
}

TEST_CASE("an agent that never acknowledges what it receives is disconnected") {
  RoundSpec spec = nodes(1, 2);
  spec.max_restarts = 1000;
  World world(spec);
  Peer deaf(world);
  deaf.send(greeting() + encode(message::Hello{"job", 1, 2, "deaf", "s", 0}));
  deaf.next_reply<reply::Welcome>();
  // It joins with every round, and reports long failures, which are repeated to it.
  Failure failure;
  failure.wait_status = 256;
  failure.pid = 1;
  for (auto* text : {&failure.host, &failure.cause, &failure.stderr_tail, &failure.exception,
                     &failure.traceback}) {
    *text = std::string(4000, 'x');
  }
  JoinRequest request;
  request.host = "deaf";
  const std::string join = encode(message::Join{request});
  const auto one_more_round = [&](int round) {
    const size_t had = deaf.received.size();
    deaf.send(join + encode(message::Fail{round, failure}));
    world.until([&] { return deaf.closed || deaf.received.size() > had + 20'000; });
  };
  try {
    for (int round = 0; !deaf.closed && round < 1000; ++round) one_more_round(round);
  } catch (const boost::system::system_error&) {  // it is closed, and the news is on its way
  }
  world.until([&] { return deaf.closed; });
  CHECK(world.logged("deaf does not acknowledge what it receives"));
}
