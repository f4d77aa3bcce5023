// SPDX-License-Identifier: Apache-2.0
// Tests how rounds and sessions differ if etcd elects the master.
#include <algorithm>

#include "rendezvous/session/server_sessions.h"
#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

using namespace std::chrono_literals;

const Round::Time kNow(1h);

Round elected(JobState state, int nodes = 2, int restarts = 3) {
  RoundSpec spec;
  spec.min_nodes = nodes;
  spec.max_nodes = 3;
  spec.max_restarts = restarts;
  spec.last_call = 1s;
  return Round(spec, 12s, "this", std::move(state));
}

/// The join of a node from a round with nodes 0 to 2, whose master was on node 0.
JoinRequest from_earlier(int node_rank) {
  JoinRequest request;
  request.last_round = 4;
  request.last_master = "earlier";
  request.last_node_rank = node_rank;
  request.last_guests = 2;
  request.last_hosted = node_rank == 0;
  return request;
}

JoinRequest with_failure(JoinRequest request) {
  request.unreported_failure = Failure();
  request.unreported_failure->rank = 1;
  request.unreported_failure->wait_status = 256;
  request.unreported_failure->pid = 5;
  return request;
}

template <class T>
int count(const Notifications& notifications) {
  return static_cast<int>(
      std::count_if(notifications.begin(), notifications.end(),
                    [](const auto& one) { return std::holds_alternative<T>(one.second); }));
}

TEST_CASE("new nodes alone continue the recorded numbers of rounds and restarts") {
  Round round = elected({4, 2, {}});
  round.join(1, {}, kNow);
  round.join(2, {}, kNow);
  const Notifications started = round.tick(kNow + 12s);
  REQUIRE(count<Ready>(started) == 2);
  const Layout& layout = std::get<Ready>(started[0].second).layout;
  CHECK(layout.round == 5);
  CHECK(layout.restarts == 2);
  CHECK(round.state().round == 5);
}

TEST_CASE("new nodes begin no round while missing nodes of the last one may run workers") {
  Round round = elected({4, 0, {}});
  for (const NodeId node : {1, 2, 3}) CHECK(count<Ready>(round.join(node, {}, kNow)) == 0);
  CHECK(round.waiting_for() ==
        "nodes of round 4, whose workers may still run (up to 12 s, --lease)");
  CHECK(count<Ready>(round.tick(kNow + 11s)) == 0);
  CHECK(round.deadline() == kNow + 12s);
  CHECK(count<Ready>(round.tick(kNow + 12s)) == 3);
}

TEST_CASE("the first master of a job has no round to wait for") {
  Round round = elected({});
  for (const NodeId node : {1, 2}) CHECK(count<Ready>(round.join(node, {}, kNow)) == 0);
  CHECK(count<Ready>(round.join(3, {}, kNow)) == 3);
}

TEST_CASE("a node of another master makes new nodes wait until a member reports its round") {
  Round round = elected({});
  round.had_another_master(4, kNow);
  CHECK(count<Ready>(round.join(1, {}, kNow)) == 0);
  SECTION("or for a lease") {
    for (const NodeId node : {2, 3}) CHECK(count<Ready>(round.join(node, {}, kNow)) == 0);
    CHECK(round.waiting_for() ==
          "nodes of an earlier master's round, whose workers may still run (up to 12 s, --lease)");
    CHECK(count<Ready>(round.tick(kNow + 11s)) == 0);
    CHECK(round.deadline() == kNow + 12s);
    CHECK(count<Ready>(round.tick(kNow + 12s)) == 3);
  }
  SECTION("and until all nodes of that round have joined") {
    CHECK(count<Ready>(round.join(4, from_earlier(1), kNow)) == 0);
    CHECK(count<Ready>(round.join(5, from_earlier(2), kNow)) == 3);
  }
}

TEST_CASE("a node of another master may have workers until it joins, whatever the others report") {
  Round round = elected({});
  round.had_another_master(4, kNow);
  round.had_another_master(6, kNow);
  round.join(4, from_earlier(1), kNow);
  CHECK(count<Ready>(round.join(5, from_earlier(2), kNow)) == 0);
  SECTION("or for a lease") {
    CHECK(count<Ready>(round.tick(kNow + 12s)) == 2);
  }
  SECTION("even if it was no member of that round") {
    CHECK(count<Ready>(round.join(6, {}, kNow)) == 3);
  }
}

TEST_CASE("the next round waits for a node of another master that comes when new nodes run") {
  Round round = elected({});
  for (const NodeId node : {1, 2}) round.join(node, {}, kNow);
  CHECK(count<Ready>(round.tick(kNow + 1s)) == 2);
  const bool is_late = GENERATE(true, false);
  const Round::Time then = kNow + (is_late ? 12s : 2s);
  round.had_another_master(3, then);
  round.fail(1, 0, {}, then);
  round.join(1, {}, then);
  CHECK(count<Ready>(round.join(2, {}, then)) == (is_late ? 2 : 0));
  if (!is_late) CHECK(count<Ready>(round.tick(kNow + 12s)) == 2);
}

TEST_CASE("after the end members get the end, and new nodes a refusal") {
  Round round = elected({4, 0, Succeeded{}});
  CHECK(count<Closed>(round.join(1, from_earlier(1), kNow)) == 1);
  const Notifications refused = round.join(2, {}, kNow);
  REQUIRE(count<Refused>(refused) == 1);
  CHECK(std::get<Refused>(refused[0].second).left_out);
  CHECK(std::get<Refused>(refused[0].second).sentence == "it succeeded");
}

TEST_CASE("a worker that failed when the master was lost costs no restart") {
  Round round = elected({4, 0, {}}, 2, 0);
  round.join(1, with_failure(from_earlier(1)), kNow);
  const Notifications started = round.join(2, from_earlier(2), kNow);
  CHECK(count<Ready>(started) == 2);
  CHECK(round.restarts() == 0);
}

TEST_CASE("the old master's node does not stand for another one that may run workers") {
  Round round = elected({4, 0, {}});
  round.join(1, from_earlier(0), kNow);
  CHECK(count<Ready>(round.join(2, from_earlier(1), kNow)) == 0);
  CHECK(count<Ready>(round.tick(kNow + 11s)) == 0);
  CHECK(count<Ready>(round.tick(kNow + 12s)) == 2);
}

/// Two nodes, "a" on line 1 and "b" on line 2; "a" is the master's node.
struct Sessions {
  ServerSessions sessions{options()};
  ServerActions last;

  static ServerSessions::Options options() {
    ServerSessions::Options options;
    options.name = "m";
    options.round.min_nodes = options.round.max_nodes = 2;
    options.resident = "a";
    options.inherited.emplace();
    return options;
  }

  explicit Sessions(int store_port = 0) {
    for (const ConnectionId line : {1, 2}) {
      sessions.connected(line, "x", kProtocolVersion, false);
      message::Hello hello;
      hello.min_nodes = hello.max_nodes = 2;
      hello.host = hello.session = line == 1 ? "a" : "b";
      hello.number = 1;
      say(line, hello);
      message::Join join;
      join.request.store_port = store_port;
      say(line, join);
    }
  }

  void say(ConnectionId line, Message message) { last = sessions.received(line, message, kNow); }

  template <class T>
  std::vector<const T*> told() const {
    std::vector<const T*> found;
    for (const ServerAction& action : last) {
      const auto* send = std::get_if<server_action::Send>(&action);
      const auto* notification = send ? std::get_if<Notification>(send->reply.get()) : nullptr;
      const auto* one = notification ? std::get_if<T>(notification) : nullptr;
      if (one != nullptr) found.push_back(one);
    }
    return found;
  }

  const JobState* recorded() const {
    for (const ServerAction& action : last) {
      if (const auto* record = std::get_if<server_action::Record>(&action)) return &record->state;
    }
    return nullptr;
  }
};

TEST_CASE("a round is recorded before a node is notified") {
  Sessions job;
  REQUIRE(job.recorded() != nullptr);
  CHECK(job.recorded()->round == 0);
  CHECK(job.told<Ready>().empty());
  job.say(2, Heartbeat{});
  CHECK(job.last.size() == 1);  // the heartbeat is answered
  job.last = job.sessions.recorded();
  REQUIRE(job.told<Ready>().size() == 2);
  const Layout& first = job.told<Ready>()[0]->layout;
  CHECK(first.guests == 1);
  CHECK(first.node_rank == 0);
  CHECK(job.recorded() == nullptr);
}

TEST_CASE("the node whose worker hosts the store may be lost while the round is recorded") {
  Sessions job(29'500);
  const std::string lost = GENERATE("a", "b");
  job.say(lost == "a" ? 1 : 2, message::Gone{lost, "it was killed"});
  job.last = job.sessions.recorded();
  CHECK(job.told<Ready>().size() == 1);
  CHECK(job.told<Broken>().size() == 1);
}

TEST_CASE("news that come while a round is recorded follow it") {
  Sessions job;
  job.say(2, message::Leave{});
  CHECK(job.told<Broken>().empty());
  job.last = job.sessions.recorded();
  CHECK(job.told<Ready>().size() == 2);
  CHECK(job.told<Broken>().size() == 1);
  CHECK(std::get<Notification>(*std::get<server_action::Send>(job.last.back()).reply).index() ==
        Notification(Broken{}).index());
}

TEST_CASE("the end is recorded before a node is notified") {
  Sessions job;
  job.last = job.sessions.recorded();
  job.say(1, message::Succeed{0});
  CHECK(job.recorded() == nullptr);
  job.say(2, message::Succeed{0});
  REQUIRE(job.recorded() != nullptr);
  CHECK(job.recorded()->ending);
  CHECK(job.told<Closed>().empty());
  job.last = job.sessions.recorded();
  CHECK(job.told<Closed>().size() == 2);
}

}  // namespace
}  // namespace ddprun::rendezvous
