// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/server_sessions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::rendezvous {
namespace {

using namespace std::chrono_literals;

const ServerSessions::Time kNow(1h);

/// Nodes of a job, "a" on line 1, "b" on line 2 and so on, in round 0. The master has no own node.
struct Job {
  int nodes;
  ServerSessions sessions;
  std::uint64_t hellos = 0;

  explicit Job(int count = 2) : nodes(count), sessions(options(count)) {
    for (int line = 1; line <= count; ++line) {
      const std::string host(1, static_cast<char>('a' + line - 1));
      greet(static_cast<ConnectionId>(line), host);
      sessions.received(static_cast<ConnectionId>(line), Message(join(host)), kNow);
    }
    CHECK(sessions.round().phase() == Round::Phase::active);
  }

  static ServerSessions::Options options(int count) {
    ServerSessions::Options options;
    options.name = "m";
    options.round.min_nodes = options.round.max_nodes = count;
    options.round.max_restarts = 1;
    options.loss_text = [](const Failure& failure) { return failure.cause; };
    return options;
  }

  static message::Join join(const std::string& host) {
    JoinRequest request;
    request.host = host;
    return {request};
  }

  ServerActions greet(ConnectionId line, const std::string& host, ServerSessions::Time now = kNow) {
    sessions.connected(line, host, kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = nodes;
    hello.host = hello.session = host;
    hello.number = ++hellos;
    return sessions.received(line, Message(hello), now);
  }

  ServerActions fail(int pid = 7) {
    Failure failure;
    failure.rank = 1;
    failure.pid = pid;
    failure.host = "a";
    failure.wait_status = 256;
    failure.cause = "its own";
    return sessions.received(1, Message(message::Fail{0, failure}), kNow);
  }
};

/// The message to node "a" about the end of its round; nullptr: none.
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

/// The answer to a node that asks what it waits for; empty: none.
std::string told(const ServerActions& actions) {
  const auto* send = actions.empty() ? nullptr : std::get_if<server_action::Send>(&actions.front());
  const auto* waiting = send ? std::get_if<reply::Waiting>(send->reply.get()) : nullptr;
  return waiting ? waiting->sentence : "";
}

TEST_CASE("a connection that is resumed renews the lease at the master, too") {
  Job job(1);
  job.greet(2, "a", kNow + 11s);
  job.sessions.tick(kNow + 13s);
  CHECK(job.sessions.round().running() == 1);
  job.sessions.tick(kNow + 23s);  // its lease is over, and a fifth
  CHECK(job.sessions.round().running() == 0);
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

TEST_CASE("a failure waits until each member that had no line when it came is back or lost") {
  Job job(4);
  job.sessions.lost(2, kNow);
  job.sessions.lost(3, kNow);
  CHECK(broken(job.fail()) == nullptr);
  CHECK(broken(job.greet(5, "b")) == nullptr);
  job.sessions.lost(5, kNow);
  const ServerActions back = job.greet(6, "c");
  REQUIRE(broken(back) != nullptr);
  CHECK(broken(back)->root_cause);
}

TEST_CASE("a failure does not wait for a member whose line is lost later") {
  Job job(4);
  job.sessions.lost(2, kNow);
  CHECK(broken(job.fail()) == nullptr);
  job.sessions.lost(3, kNow);
  SECTION("the failure counts when the first member is back") {
    const ServerActions back = job.greet(5, "b");
    REQUIRE(broken(back) != nullptr);
    CHECK(broken(back)->root_cause);
  }
  SECTION("a second failure waits behind it") {
    CHECK(broken(job.sessions.received(4, Message(message::Fail{0, {}}), kNow)) == nullptr);
    const ServerActions back = job.greet(5, "b");
    REQUIRE(broken(back) != nullptr);
    CHECK(broken(back)->root_cause->host == "a");
  }
}

TEST_CASE("a node whose failure waits gets the awaited node and the time limit") {
  Job job(3);
  job.sessions.lost(2, kNow);
  job.fail();
  job.sessions.received(1, Message(Job::join("a")), kNow);
  CHECK(told(job.sessions.received(1, Message(message::Ask{}), kNow)) ==
        "news of node 1 (b), which is out of reach: its loss would explain the failure here "
        "(decided within 12 s, --lease 10 s)");
  CHECK(tests::contains(told(job.sessions.received(3, Message(message::Ask{}), kNow)), "a place"));
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

TEST_CASE("waiting messages are taken in order when the round is broken for another reason") {
  Job job(3);
  job.sessions.lost(2, kNow);
  CHECK(broken(job.fail()) == nullptr);
  job.sessions.received(1, Message(Job::join("a")), kNow);
  CHECK(job.sessions.round().nodes().begin()->second.state == NodeState::running);
  const ServerActions left = job.sessions.received(3, Message(message::Leave{}), kNow);
  REQUIRE(broken(left) != nullptr);
  CHECK(tests::contains(broken(left)->reason, "left"));
  CHECK(job.sessions.round().nodes().begin()->second.state == NodeState::waiting);
}

TEST_CASE("the number of waiting messages is bounded: later ones are taken at once") {
  Job job(3);
  job.sessions.lost(2, kNow);
  job.fail();
  const auto from_c = [&](const Message& message) {
    return job.sessions.received(3, message, kNow);
  };
  from_c(Message(message::Fail{0, {}}));
  const int joins = GENERATE(9, 10);  // with the failures of both 11, and 12 of at most 12
  for (int i = 0; i < joins; ++i) from_c(Message(Job::join("c")));
  CHECK((broken(from_c(Message(message::Leave{}))) == nullptr) == (joins == 9));
}

TEST_CASE("a master that stood still gives up no node before it has read the node's messages") {
  Job job;
  REQUIRE(job.sessions.deadline());
  const auto overdue = *job.sessions.deadline();
  SECTION("the master stood still for longer than the nodes may be silent") {
    CHECK(broken(job.sessions.tick(overdue + 1h)) == nullptr);
    CHECK(job.sessions.round().nodes().size() == 2);
    job.sessions.received(1, Message(Heartbeat{}), overdue + 1h);
    CHECK(broken(job.sessions.tick(*job.sessions.deadline())) != nullptr);
  }
  SECTION("the master did not stand still: the nodes are silent") {
    job.sessions.received(1, Message(Heartbeat{}), overdue - 1s);
    CHECK(broken(job.sessions.tick(overdue)) != nullptr);
  }
}

TEST_CASE("a failure waits no longer than the lease of the node without a line") {
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

// Messages of an agent on a line that it gave up may be long on their way.
TEST_CASE("a hello and a join that come after the agent's newer ones have no effect") {
  Job job;
  job.sessions.connected(3, "b", kProtocolVersion, false);
  message::Hello late;
  late.min_nodes = late.max_nodes = job.nodes;
  late.host = late.session = "b";
  const ServerActions actions = job.sessions.received(3, Message(late), kNow);
  REQUIRE(actions.size() == 1);
  CHECK(std::get<server_action::Close>(actions[0]).connection == 3);
  CHECK(job.sessions.received(3, Message(Job::join("b")), kNow).empty());
  CHECK(job.sessions.round().phase() == Round::Phase::active);
}

/// Whether a Ready is sent on that line.
bool is_ready_sent(const ServerActions& actions, ConnectionId line) {
  return std::any_of(actions.begin(), actions.end(), [line](const ServerAction& action) {
    const auto* send = std::get_if<server_action::Send>(&action);
    if (send == nullptr || send->to != line) return false;
    const auto* notification = std::get_if<Notification>(send->reply.get());
    return notification != nullptr && std::holds_alternative<Ready>(*notification);
  });
}

// When the master has forgotten the session, only the ticket of the agent's next hello shows that
// they are late.
TEST_CASE("a round that a late hello and join of a lost agent began is not for that agent") {
  ServerSessions sessions(Job::options(2));
  const auto greet = [&](ConnectionId line, const std::string& host, std::uint64_t number,
                         const std::string& ticket = "") {
    sessions.connected(line, host, kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = 2;
    hello.host = hello.session = host;
    hello.number = number;
    hello.ticket = ticket;
    return sessions.received(line, Message(hello), kNow + 20s);
  };
  const auto join = [&](ConnectionId line, const std::string& host) {
    return sessions.received(line, Message(Job::join(host)), kNow + 20s);
  };
  greet(1, "a", 1);
  join(1, "a");
  const ServerActions first = greet(3, "b", 2);
  const auto& welcome = std::get<reply::Welcome>(*std::get<server_action::Send>(first[0]).reply);
  sessions.received(1, Message(Heartbeat{}), kNow + 25s);
  REQUIRE(std::get<server_action::Close>(sessions.tick(*sessions.deadline()).at(0)).connection ==
          3);

  greet(2, "b", 1);
  REQUIRE(is_ready_sent(join(2, "b"), 2));
  const ServerActions again = greet(4, "b", 3, welcome.ticket);
  CHECK_FALSE(is_ready_sent(again, 4));
  REQUIRE(broken(again) != nullptr);
  CHECK(sessions.round().restarts() == 0);
  join(1, "a");
  CHECK(is_ready_sent(join(4, "b"), 4));
}

TEST_CASE("a node that another master has welcomed may still run workers of its round here") {
  Job job;
  job.sessions.lost(2, kNow);
  job.sessions.connected(3, "b", kProtocolVersion, false);
  message::Hello hello;
  hello.min_nodes = hello.max_nodes = job.nodes;
  hello.host = hello.session = "b";
  hello.number = ++job.hellos;
  hello.ticket = "another master/7";
  const ServerActions actions = job.sessions.received(3, Message(hello), kNow);
  CHECK(broken(actions) == nullptr);
  const auto& welcome =
      std::get<reply::Welcome>(*std::get<server_action::Send>(actions.at(0)).reply);
  CHECK_FALSE(welcome.resumed);
  CHECK(job.sessions.round().running() == 2);
  CHECK(broken(job.sessions.received(3, Message(Job::join("b")), kNow)) != nullptr);
}

TEST_CASE("new nodes begin no round while a node of another master stops its workers") {
  const bool had_another = GENERATE(true, false);
  ServerSessions sessions{Job::options(2)};
  for (const char* host : {"a", "b", "c"}) {
    const auto line = static_cast<ConnectionId>(static_cast<unsigned char>(host[0]));
    sessions.connected(line, host, kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = 2;
    hello.host = hello.session = host;
    hello.number = 1;
    if (had_another && hello.host == "a") hello.ticket = "another master/1";
    sessions.received(line, Message(hello), kNow);
  }
  for (const char* host : {"b", "c"}) {
    sessions.received(static_cast<ConnectionId>(static_cast<unsigned char>(host[0])),
                      Message(Job::join(host)), kNow);
  }
  using Phase = Round::Phase;
  CHECK(sessions.round().phase() == (had_another ? Phase::forming : Phase::active));
}

/// A job of two nodes with --node_rank, whose second one, "b", is replaced while it has no line.
struct Replaced {
  ServerSessions sessions{Job::options(2)};
  std::uint64_t hellos = 0;

  Replaced() {
    for (int line = 1; line <= 2; ++line) join(line, line == 1 ? "a" : "b", line - 1);
    CHECK(sessions.round().phase() == Round::Phase::active);
    sessions.lost(2, kNow);
  }

  ServerActions join(int line, const std::string& host, int rank, const std::string& again = "") {
    greet(line, host, again);
    message::Join join = Job::join(host);
    join.request.node_rank = rank;
    return sessions.received(static_cast<ConnectionId>(line), Message(join), kNow);
  }

  ServerActions greet(int line, const std::string& host, const std::string& again = "") {
    const auto id = static_cast<ConnectionId>(line);
    sessions.connected(id, host, kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = 2;
    hello.host = host;
    hello.session = host + again;
    hello.number = ++hellos;
    return sessions.received(id, Message(hello), kNow);
  }
};

bool is_refused(const ServerActions& actions, ConnectionId line) {
  return std::any_of(actions.begin(), actions.end(), [line](const ServerAction& action) {
    const auto* send = std::get_if<server_action::Send>(&action);
    if (send == nullptr || send->to != line) return false;
    const auto* notification = std::get_if<Notification>(send->reply.get());
    return notification != nullptr && std::holds_alternative<Refused>(*notification);
  });
}

TEST_CASE("a node that returns as another process waits for the lease of the one before") {
  Replaced replaced;
  ServerSessions& sessions = replaced.sessions;
  CHECK_FALSE(is_refused(replaced.join(3, "b", 1, " again"), 3));
  CHECK(sessions.round().phase() == Round::Phase::active);
  CHECK(sessions.round().nodes().size() == 2);

  SECTION("it takes the place when that lease is over") {
    sessions.received(1, Message(Heartbeat{0}), kNow + 10s);
    sessions.received(3, Message(Heartbeat{0}), kNow + 10s);
    const ServerActions over = sessions.tick(kNow + 12s);
    REQUIRE(broken(over) != nullptr);
    CHECK(tests::contains(broken(over)->reason, "silent"));
    CHECK(sessions.round().nodes().contains(3));
  }
  SECTION("it takes the place when no process of the node before runs") {
    sessions.connected(4, "guardian of b", kProtocolVersion, false);
    sessions.received(4, Message(message::Gone{"b", "its agent was killed"}), kNow);
    CHECK(sessions.round().nodes().contains(3));
  }
  SECTION("it is refused if the process before is back") {
    CHECK(is_refused(replaced.greet(4, "b"), 3));
  }
  SECTION("it leaves nothing behind if it is gone first") {
    sessions.received(3, Message(message::Gone{"b again", "it was stopped"}), kNow);
    CHECK_FALSE(is_refused(replaced.greet(4, "b"), 3));
    CHECK(sessions.round().nodes().size() == 2);
  }
  SECTION("a node that asks twice has one place") {
    replaced.join(4, "b", 1, " again");
    sessions.connected(5, "guardian of b", kProtocolVersion, false);
    const ServerActions gone =
        sessions.received(5, Message(message::Gone{"b", "its agent was killed"}), kNow);
    CHECK_FALSE(is_refused(gone, 4));
    CHECK(sessions.round().nodes().size() == 2);
  }
}

TEST_CASE(
    "a node that claims to host the master is refused at once, and does not wait for a place") {
  Replaced replaced;
  replaced.greet(3, "b", " again");
  message::Join join = Job::join("b");
  join.request.node_rank = 1;
  join.request.hosting = true;
  CHECK(is_refused(replaced.sessions.received(3, Message(join), kNow), 3));
  replaced.sessions.lost(3, kNow);
  replaced.sessions.received(1, Message(Heartbeat{0}), kNow + 10s);
  replaced.sessions.tick(kNow + 12s);
  CHECK(replaced.sessions.round().nodes().size() == 1);
}

TEST_CASE("a node that waits for its place gets this as the reason") {
  Replaced replaced;
  replaced.join(3, "b", 1, " again");
  CHECK(tests::contains(told(replaced.sessions.received(3, Message(message::Ask{}), kNow)),
                        "had this node_rank before"));
}

TEST_CASE("a node does not wait for the place of another host, or of a node with a line") {
  Replaced replaced;
  CHECK(is_refused(replaced.join(3, "c", 1), 3));
  CHECK(is_refused(replaced.join(4, "a", 0, " again"), 4));
}

TEST_CASE("workers that wait for those of a refused node are notified") {
  Job job;
  const ServerActions actions = job.sessions.received(2, Error{Errc::protocol, "no type"}, kNow);
  REQUIRE(broken(actions) != nullptr);
  const auto tells = [](const ServerAction& action) {
    return std::holds_alternative<server_action::NotifyWorkers>(action);
  };
  CHECK(std::count_if(actions.begin(), actions.end(), tells) == 1);
}

TEST_CASE("workers that wait get the rank of a lost worker, and none for a lost node") {
  const auto [pid, lost] =
      GENERATE(std::pair{7, std::optional(1)}, std::pair{0, std::optional<int>()});
  Job job;
  for (const ServerAction& action : job.fail(pid)) {
    const auto* news = std::get_if<server_action::NotifyWorkers>(&action);
    if (news == nullptr) continue;
    CHECK(news->sentence == "its own");
    CHECK(news->lost == lost);
    return;
  }
  FAIL("the workers are not told");
}

TEST_CASE("different commands of nodes are reported in one line") {
  ServerSessions sessions(Job::options(3));
  std::vector<std::string> warnings;
  for (const char* host : {"a", "b", "c"}) {
    const auto line = static_cast<ConnectionId>(static_cast<unsigned char>(host[0]));
    sessions.connected(line, host, kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = 3;
    hello.session = host;
    sessions.received(line, Message(hello), kNow);
    message::Join join = Job::join(host);
    join.request.command = std::string("./run ") + host;
    join.request.command_hash = line;
    for (const ServerAction& action : sessions.received(line, Message(join), kNow)) {
      if (const auto* warn = std::get_if<server_action::Warn>(&action)) {
        warnings.push_back(warn->sentence);
      }
    }
  }
  CHECK(sessions.round().phase() == Round::Phase::active);
  CHECK(warnings ==
        std::vector<std::string>{
            "b runs './run b', and a runs './run a': nodes of one job may run different "
            "commands, but another job needs another port (--rdzv_endpoint)"});
}

/// The warnings when two nodes of eight workers begin, with a store of ddprun's or of rank 0's.
std::vector<std::string> warnings_with(size_t connections, int store_port) {
  ServerSessions::Options options = Job::options(2);
  options.connections = connections;
  ServerSessions sessions(options);
  std::vector<std::string> warnings;
  for (const ConnectionId line : {1, 2}) {
    sessions.connected(line, "host", kProtocolVersion, false);
    message::Hello hello;
    hello.min_nodes = hello.max_nodes = 2;
    hello.session = std::to_string(line);
    sessions.received(line, Message(hello), kNow);
    message::Join join = Job::join(hello.session);
    join.request.local_size = 8;
    join.request.store_port = store_port;
    for (const ServerAction& action : sessions.received(line, Message(join), kNow)) {
      const auto* warn = std::get_if<server_action::Warn>(&action);
      if (warn != nullptr) warnings.push_back(warn->sentence);
    }
  }
  CHECK(sessions.round().phase() == Round::Phase::active);
  return warnings;
}

TEST_CASE("a job that needs more connections than the master can have gets one warning") {
  const std::vector<std::string> warnings = warnings_with(17, 0);
  REQUIRE(warnings.size() == 1);
  CHECK(tests::contains(warnings[0], "needs 18 connections to its master, which can have 17"));
  CHECK(warnings_with(18, 0).empty());
  CHECK(warnings_with(2, 29'501).empty());
}

}  // namespace
}  // namespace ddprun::rendezvous
