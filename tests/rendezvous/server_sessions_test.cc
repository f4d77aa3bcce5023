// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server_sessions.h"

#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::rendezvous {
namespace {

using namespace std::chrono_literals;

const ServerSessions::Time kNow(1h);

/// Two nodes of a job, "a" on line 1 and "b" on line 2, in round 0. The master's own is neither.
struct Job {
  ServerSessions sessions;

  Job() : sessions(options()) {
    greet(1, "a");
    greet(2, "b");
    sessions.received(1, Message(join("a")), kNow);
    sessions.received(2, Message(join("b")), kNow);
    CHECK(sessions.round().phase() == Round::Phase::active);
  }

  static ServerSessions::Options options() {
    ServerSessions::Options options;
    options.name = "m";
    options.round.min_nodes = options.round.max_nodes = 2;
    options.round.max_restarts = 1;
    return options;
  }

  static message::Join join(const std::string& host) {
    JoinRequest request;
    request.host = host;
    return {request};
  }

  ServerActions greet(ConnectionId line, const std::string& host) {
    sessions.connected(line, host, kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = 2;
    hello.host = hello.session = host;
    return sessions.received(line, Message(hello), kNow);
  }

  ServerActions fail() {
    Failure failure;
    failure.host = "a";
    failure.wait_status = 256;
    failure.cause = "its own";
    return sessions.received(1, Message(message::Fail{0, failure}), kNow);
  }
};

/// What node "a" is told about the end of its round; nullptr: nothing.
const Broken* broken(const ServerActions& actions) {
  for (const ServerAction& action : actions) {
    const auto* send = std::get_if<server_action::Send>(&action);
    if (send == nullptr || send->to != 1) continue;
    const auto* notification = std::get_if<Notification>(send->reply.get());
    if (notification == nullptr) continue;
    if (const auto* found = std::get_if<Broken>(notification)) return found;
  }
  return nullptr;
}

TEST_CASE("a failure breaks the round at once while all members have a line") {
  Job job;
  const ServerActions actions = job.fail();
  REQUIRE(broken(actions) != nullptr);
  CHECK(broken(actions)->root_cause);
}

TEST_CASE("a failure after a member's line was lost is a consequence, if that node is lost") {
  Job job;
  job.sessions.lost(2, kNow);
  CHECK(broken(job.fail()) == nullptr);
  CHECK(broken(job.sessions.received(1, Message(Job::join("a")), kNow)) == nullptr);
  job.sessions.connected(3, "guardian of b", kProtocolVersion, false);
  const ServerActions gone =
      job.sessions.received(3, Message(message::Gone{"b", "its agent was killed"}), kNow);
  REQUIRE(broken(gone) != nullptr);
  CHECK_FALSE(broken(gone)->root_cause);
  CHECK(tests::contains(broken(gone)->reason, "its agent was killed"));
  CHECK(job.sessions.round().restarts() == 0);
}

TEST_CASE("a failure after a member's line was lost counts when that node is back") {
  Job job;
  job.sessions.lost(2, kNow);
  CHECK(broken(job.fail()) == nullptr);
  const ServerActions back = job.greet(3, "b");
  REQUIRE(broken(back) != nullptr);
  CHECK(broken(back)->root_cause);
  CHECK(job.sessions.round().restarts() == 1);
}

TEST_CASE("a failure that waits does so no longer than the lease of the node without a line") {
  Job job;
  job.sessions.lost(2, kNow);
  CHECK(broken(job.fail()) == nullptr);
  job.sessions.received(1, Message(Heartbeat{}), kNow + 11s);
  ServerActions over;
  while (job.sessions.deadline() && broken(over) == nullptr) {
    over = job.sessions.tick(*job.sessions.deadline());
  }
  REQUIRE(broken(over) != nullptr);
  CHECK(tests::contains(broken(over)->reason, "silent"));
  CHECK(job.sessions.round().restarts() == 0);
}

}  // namespace
}  // namespace ddprun::rendezvous
