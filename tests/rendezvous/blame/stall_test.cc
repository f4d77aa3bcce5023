// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/stall.h"

#include <string>
#include <vector>

#include "rendezvous/session/server_sessions.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::rendezvous {
namespace {

using namespace std::chrono_literals;
using Kind = WorkerPlace::Kind;
using tests::contains;

const ServerSessions::Time kStart(1h);

/// Nodes "a", "b" ... of one rank each, on lines 1, 2 ..., in round 0.
class StallJob {
 public:
  explicit StallJob(int count, std::chrono::milliseconds hang_timeout = 0ms)
      : count_(count), sessions_(options(count, hang_timeout)) {
    for (ConnectionId line = 1; line <= static_cast<ConnectionId>(count); ++line) greet(line);
    for (ConnectionId line = 1; line <= static_cast<ConnectionId>(count); ++line) join(line);
    CHECK(sessions_.round().phase() == Round::Phase::active);
  }

  /// The message that a node gets because `line` says this.
  std::vector<Notification> says(ConnectionId line, const Message& message, ConnectionId to = 1) {
    std::vector<Notification> told;
    for (const ServerAction& action : sessions_.received(line, message, kStart)) {
      const auto* send = std::get_if<server_action::Send>(&action);
      if (send == nullptr || send->to != to) continue;
      if (const auto* one = std::get_if<Notification>(send->reply.get())) told.push_back(*one);
    }
    return told;
  }

  std::vector<Notification> quiet(ConnectionId line, Kind kind = Kind::waiting, int round = 0) {
    const std::string what = kind == Kind::waiting ? "waiting (futex)" : "asleep (nanosleep)";
    const int rank = static_cast<int>(line) - 1;
    return says(line, message::Progress{{round, true, 612, {{{rank}, kind, what, 600}}}});
  }

  std::vector<Notification> goes_on(ConnectionId line) {
    return says(line, message::Progress{{0, false, 0, {}}});
  }

  void join(ConnectionId line) {
    JoinRequest request;
    request.host = host(line);
    sessions_.received(line, Message(message::Join{request}), kStart);
  }

  ServerSessions& sessions() { return sessions_; }

 private:
  static std::string host(ConnectionId line) {
    return std::string(1, static_cast<char>('a' + static_cast<int>(line) - 1));
  }

  static ServerSessions::Options options(int count, std::chrono::milliseconds hang_timeout) {
    ServerSessions::Options options;
    options.round.min_nodes = options.round.max_nodes = count;
    options.round.max_restarts = 1;
    options.round.hang_timeout = hang_timeout;
    return options;
  }

  void greet(ConnectionId line) {
    sessions_.connected(line, host(line), kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = count_;
    hello.host = hello.session = host(line);
    sessions_.received(line, Message(hello), kStart);
  }

  int count_;
  ServerSessions sessions_;
};

TEST_CASE("a round hangs when all its nodes report it, and all get one message") {
  StallJob job(3);
  CHECK(job.quiet(1).empty());
  CHECK(job.quiet(2, Kind::elsewhere).empty());
  CHECK(job.quiet(2, Kind::elsewhere).empty());
  const auto told = job.quiet(3);
  REQUIRE(told.size() == 1);
  const std::string& text = std::get<Stalled>(told[0]).text;
  CHECK(contains(text, "no rank has made progress for 10 min (round 0)\n"));
  CHECK(contains(text,
                 "rank 1 (b) is the likely cause: asleep (nanosleep) for 10 min, while ranks "
                 "0, 2 waited\n"));
  CHECK(contains(text, "\nranks 0, 2 (a, c): waiting (futex) for 10 min"));
  CHECK(job.quiet(3).empty());
  CHECK(job.sessions().round().phase() == Round::Phase::active);
}

TEST_CASE("a node's progress ends the hang, and the next hang is reported again") {
  StallJob job(2);
  job.quiet(1);
  CHECK(job.goes_on(1).empty());
  CHECK(job.quiet(2).empty());
  CHECK(job.quiet(1).size() == 1);
  const auto over = job.goes_on(2);
  REQUIRE(over.size() == 1);
  CHECK(std::get<Stalled>(over[0]).text == "ranks make progress again");
  CHECK(job.goes_on(2).empty());
  CHECK(job.quiet(2).size() == 1);
}

TEST_CASE("a hang does not wait for nodes whose workers have ended with 0") {
  StallJob job(3);
  job.quiet(1);
  job.quiet(2);
  const auto told = job.says(3, message::Succeed{0});
  REQUIRE(told.size() == 1);
  CHECK(
      contains(std::get<Stalled>(told[0]).text,
               "rank 2 (c) is the likely cause: ended with exit code 0, while ranks 0, 1 waited"));
}

TEST_CASE("a node that only computes ends a hang, unless all others show that they wait for it") {
  const auto reports = [](StallJob& job, ConnectionId line, Kind kind, const std::string& what) {
    const int rank = static_cast<int>(line) - 1;
    return job.says(line, message::Progress{{0, true, 612, {{{rank}, kind, what}}}});
  };
  const std::string search = "in search (a.py:3), busy on a CPU";
  StallJob waiting(2);
  waiting.quiet(1);
  CHECK(reports(waiting, 2, Kind::computing, search).empty());
  StallJob job(2);
  reports(job, 1, Kind::collective, "in backward (a.py:8)");
  const auto told = reports(job, 2, Kind::computing, search);
  REQUIRE(told.size() == 1);
  CHECK(contains(std::get<Stalled>(told[0]).text,
                 "rank 1 (b) is the likely cause: in search (a.py:3), busy on a CPU, while rank 0 "
                 "waited in backward (a.py:8)"));
  CHECK(reports(job, 2, Kind::computing, search).empty());
  CHECK(job.goes_on(2).size() == 1);
}

TEST_CASE("a node whose workers have ended with 0 is seen as ended, wherever they were before") {
  StallJob job(3);
  job.quiet(3, Kind::elsewhere);
  job.says(3, message::Succeed{0});
  job.quiet(1);
  const auto told = job.quiet(2);
  REQUIRE(told.size() == 1);
  CHECK(
      contains(std::get<Stalled>(told[0]).text,
               "rank 2 (c) is the likely cause: ended with exit code 0, while ranks 0, 1 waited"));
}

TEST_CASE("with --hang_timeout a hang is the failure of the rank that the others wait for") {
  StallJob job(3, 10min);
  job.quiet(1);
  job.quiet(2, Kind::elsewhere);
  const auto told = job.quiet(3);
  REQUIRE(told.size() == 1);
  const auto& broken = std::get<Broken>(told[0]);
  REQUIRE(broken.root_cause);
  CHECK(broken.root_cause->hung);
  CHECK(broken.root_cause->rank == 1);
  CHECK(broken.root_cause->host == "b");
  CHECK(broken.restarts == 1);
  CHECK_FALSE(broken.ends_job);
  // A message about that round says nothing of the next one.
  for (const ConnectionId line : {1, 2, 3}) job.join(line);
  REQUIRE(job.sessions().round().phase() == Round::Phase::active);
  CHECK(job.says(3, message::Succeed{1}).empty());
  CHECK(job.quiet(1).empty());
  CHECK(job.quiet(1, Kind::waiting, 1).empty());
  const auto again = job.quiet(2, Kind::waiting, 1);
  REQUIRE(again.size() == 1);
  CHECK(std::get<Broken>(again[0]).ends_job);
  CHECK(std::get<Broken>(again[0]).root_cause->rank == 0);  // the lowest that runs
}

TEST_CASE("the loss of a node without a line comes before the hang") {
  StallJob job(2, 10min);
  job.quiet(2);
  job.sessions().lost(2, kStart);
  CHECK(job.quiet(1).empty());
  job.sessions().connected(9, "guardian of b", kProtocolVersion, false);
  const auto told = job.says(9, message::Gone{"b", "its agent was killed"});
  REQUIRE(told.size() == 1);
  CHECK_FALSE(std::get<Broken>(told[0]).root_cause);
}

TEST_CASE("a hang that ends while a node has no line fails nothing when the node is back") {
  StallJob job(3, 10min);
  job.quiet(1);
  job.quiet(2);
  job.sessions().lost(2, kStart);
  CHECK(job.quiet(3).empty());
  job.goes_on(3);
  job.sessions().connected(9, "b", kProtocolVersion, false);
  message::Hello hello;
  hello.min_nodes = hello.max_nodes = 3;
  hello.host = hello.session = "b";
  hello.number = 2;
  job.sessions().received(9, Message(hello), kStart);
  CHECK(job.sessions().round().phase() == Round::Phase::active);
}

TEST_CASE("a node's report about other nodes' ranks, or another round, is ignored") {
  StallJob job(2);
  job.quiet(1, Kind::waiting, 7);
  CHECK(job.quiet(2).empty());
  const WorkerPlace foreign = {{1}, Kind::stopped, "stopped", 600};
  const auto told = job.says(1, message::Progress{{0, true, 600, {foreign}}});
  REQUIRE(told.size() == 1);
  CHECK_FALSE(contains(std::get<Stalled>(told[0]).text, "stopped"));
}

}  // namespace
}  // namespace ddprun::rendezvous
