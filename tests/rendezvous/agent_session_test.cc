// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/agent_session.h"

#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

using namespace std::chrono_literals;

const AgentSession::Time kGreeted(1h);

enum class Where { fixed, elected, searched };

AgentSession new_session(Where where = Where::fixed) {
  AgentSession::Settings settings;
  settings.elected = where == Where::elected;
  settings.searched = where == Where::searched;
  settings.master = "master:29500";
  settings.session = "s";
  return AgentSession(settings);
}

reply::Welcome welcome(bool resumed, const std::string& master = "m") {
  return {master, resumed, 0, 2s, 10s, 0, master + "/1"};
}

Reply ready(int round) {
  Layout layout;
  layout.round = round;
  return Notification(Ready{layout});
}

template <class Action>
const Action* find(const AgentActions& actions) {
  for (const AgentAction& action : actions) {
    if (const auto* found = std::get_if<Action>(&action)) return found;
  }
  return nullptr;
}

/// The last message of that type among those to be sent.
template <class T>
std::optional<T> sent(const AgentActions& actions) {
  std::optional<T> last;
  for (const AgentAction& action : actions) {
    const auto* send = std::get_if<agent_action::Send>(&action);
    if (send != nullptr && std::holds_alternative<T>(send->message)) {
      last = std::get<T>(send->message);
    }
  }
  return last;
}

/// Joined and welcomed on line 1 at kGreeted.
AgentSession welcomed_session() {
  AgentSession session = new_session();
  CHECK(find<agent_action::Dial>(session.join({}, kGreeted)) != nullptr);
  const auto greeted = session.connected(1, kGreeted);
  CHECK(sent<message::Hello>(greeted));
  CHECK(sent<message::Join>(greeted));
  const auto renewed = session.received(1, welcome(false), kGreeted);
  CHECK(find<agent_action::LeaseRenewed>(renewed)->until == kGreeted + 10s);
  return session;
}

Failure exit_9() {
  Failure failure;
  failure.rank = 1;
  failure.wait_status = 9 << 8;
  return failure;
}

/// No line that it gets from `now` on is answered: how long it waits on each of the next ones.
std::vector<std::chrono::seconds> patience(AgentSession& session, AgentSession::Time now,
                                           ConnectionId id, int lines) {
  std::vector<std::chrono::seconds> waits;
  for (; lines > 0; --lines, ++id) {
    session.connected(id, now);
    const auto made = now;
    AgentActions actions;
    while (find<agent_action::Close>(actions) == nullptr) actions = session.tick(now += 500ms);
    waits.push_back(std::chrono::duration_cast<std::chrono::seconds>(now - made));
    while (find<agent_action::Dial>(actions) == nullptr) actions = session.tick(now += 500ms);
  }
  return waits;
}

TEST_CASE("to a busy master that answered no line yet an agent leaves more time on each") {
  AgentSession session = new_session();
  session.join({}, kGreeted);
  const auto waits = patience(session, kGreeted, 1, 6);
  CHECK(waits == std::vector{3s, 6s, 12s, 24s, 48s, 48s});
  session.connected(7, kGreeted + 230s);
  session.received(7, welcome(false), kGreeted + 230s);
  session.lost(7, {Errc::closed, "closed"}, kGreeted + 231s);
  SECTION("while a lease runs out it tries as often as it can") {
    CHECK(patience(session, kGreeted + 231s, 8, 2) == std::vector{3s, 3s});
  }
  SECTION("and when it is over, or is none, it begins with the shortest") {
    session.tick(kGreeted + 250s);
    CHECK(patience(session, kGreeted + 250s, 8, 2) == std::vector{3s, 6s});
  }
}

TEST_CASE("a master that has proven its secret has as long again for the welcome") {
  AgentSession session = new_session();
  session.join({}, kGreeted);
  session.connected(1, kGreeted);
  session.proven(1, kGreeted + 2s);
  CHECK(find<agent_action::Close>(session.tick(kGreeted + 4s)) == nullptr);
  session.proven(2, kGreeted + 4s);  // another line, which is gone
  CHECK(find<agent_action::Close>(session.tick(kGreeted + 5s)) != nullptr);

  session.connected(3, kGreeted + 6s);  // it has 6 s
  session.proven(3, kGreeted + 8s);
  CHECK(find<agent_action::Close>(session.tick(kGreeted + 13s)) == nullptr);
  CHECK(find<agent_action::LeaseRenewed>(session.received(3, welcome(false), kGreeted + 13s)));
  session.proven(3, kGreeted + 13s);
  CHECK(find<agent_action::Close>(session.tick(kGreeted + 14s)) == nullptr);
}

TEST_CASE("a port where no master answers is distinguished from one where nothing listens") {
  AgentSession session = new_session();
  session.join({}, kGreeted);
  const auto waiting = [&session](AgentSession::Time now) {
    const AgentActions asked = session.ask(now);
    const auto* report = find<agent_action::WaitingFor>(asked);
    REQUIRE(report != nullptr);
    return report->sentence;
  };
  session.dial_failed({Errc::unreachable, "Connection refused"}, kGreeted);
  CHECK(waiting(kGreeted).find("Connection refused (is it started? ") != std::string::npos);
  patience(session, kGreeted, 1, 1);
  CHECK(waiting(kGreeted + 5s)
            .find("its port is open, but nothing there answers as a ddprun master "
                  "(does another program have the port? ") != std::string::npos);
}

TEST_CASE(
    "another program at the master's port ends a node that has had no master yet, and no other") {
  const Error stranger{Errc::protocol, "HTTP"};
  AgentSession fresh = new_session();
  fresh.join({}, kGreeted);
  fresh.connected(1, kGreeted);
  const auto ended = fresh.lost(1, stranger, kGreeted);
  const auto* const end = find<agent_action::GaveUp>(ended);
  REQUIRE(end != nullptr);
  CHECK(end->error.message == "the server at master:29500 is not a ddprun master: HTTP");

  // While the master is restarted, another program may have its port.
  AgentSession session = welcomed_session();
  session.lost(1, {Errc::unreachable, "reset"}, kGreeted + 1s);
  session.connected(2, kGreeted + 1s);
  CHECK(find<agent_action::GaveUp>(session.lost(2, stranger, kGreeted + 1s)) == nullptr);
  CHECK(find<agent_action::Dial>(session.tick(kGreeted + 2s)) != nullptr);
  session.connected(3, kGreeted + 2s);
  CHECK(find<agent_action::LeaseRenewed>(session.received(3, welcome(true), kGreeted + 2s)));
}

TEST_CASE("a master whose messages cannot be read is not dialed again without a pause") {
  AgentSession session = welcomed_session();
  const auto lost = session.lost(1, {Errc::protocol, "unknown message type"}, kGreeted + 1s);
  CHECK(find<agent_action::GaveUp>(lost) == nullptr);
  CHECK(find<agent_action::Dial>(lost) == nullptr);
  CHECK(find<agent_action::Dial>(session.tick(kGreeted + 2s)) != nullptr);
}

TEST_CASE("where the master is elected another program at its address is a failed attempt") {
  AgentSession session = new_session(Where::elected);
  session.join({}, kGreeted);
  session.connected(1, kGreeted);
  CHECK(find<agent_action::GaveUp>(session.lost(1, {Errc::protocol, "HTTP"}, kGreeted)) == nullptr);
  const auto asked = session.ask(kGreeted);
  REQUIRE(find<agent_action::WaitingFor>(asked) != nullptr);
  CHECK(find<agent_action::WaitingFor>(asked)->sentence.starts_with(
      "the master at master:29500: it is not a ddprun master: HTTP"));
  CHECK(find<agent_action::Dial>(session.tick(kGreeted + 2s)) != nullptr);
}

TEST_CASE("another job or another program at a place of a searched master is a failed attempt") {
  AgentSession session = new_session(Where::searched);
  session.join({}, kGreeted);
  session.connected(1, kGreeted);
  const auto refused =
      session.received(1, Notification(Refused{"other job", false, true}), kGreeted);
  CHECK(find<agent_action::Received>(refused) == nullptr);
  CHECK(find<agent_action::Close>(refused)->connection == 1);
  session.tick(kGreeted + 2s);
  session.located("master:2");
  session.connected(2, kGreeted + 2s);
  session.lost(2, {Errc::protocol, "HTTP"}, kGreeted + 2s);
  session.tick(kGreeted + 4s);
  session.located("master:3");
  CHECK(find<agent_action::GaveUp>(session.dial_failed({Errc::usage, "no key"}, kGreeted + 4s)) ==
        nullptr);
  CHECK(find<agent_action::WaitingFor>(session.ask(kGreeted + 4s))
            ->sentence.starts_with("the master at master:2: it is not a ddprun master: HTTP, or "
                                   "master:29500: it refused this node: other job, or "));

  session.tick(kGreeted + 6s);
  session.located("master:2");
  session.dial_failed({Errc::usage, "no key"}, kGreeted + 6s);
  CHECK(find<agent_action::WaitingFor>(session.ask(kGreeted + 6s))
            ->sentence.starts_with("the master at master:2, master:3: no key, or master:29500: "));

  // The time for all of it runs on.
  const auto ended = session.tick(kGreeted + 600s);
  REQUIRE(find<agent_action::GaveUp>(ended) != nullptr);

  // A refusal by its own job is final.
  AgentSession other = new_session(Where::searched);
  other.join({}, kGreeted);
  other.connected(1, kGreeted);
  CHECK(find<agent_action::Received>(
            other.received(1, Notification(Refused{"--nnodes"}), kGreeted)) != nullptr);
}

TEST_CASE("a silent master is told with its own place, whichever place is dialed meanwhile") {
  AgentSession session = new_session(Where::searched);
  session.join({}, kGreeted);
  session.connected(1, kGreeted);
  session.received(1, welcome(false), kGreeted);
  AgentSession::Time now = kGreeted;
  AgentActions silent;
  while (find<agent_action::ConnectionChanged>(silent) == nullptr) silent = session.tick(now += 1s);
  CHECK(find<agent_action::ConnectionChanged>(silent)->sentence.starts_with(
      "the master at master:29500 is silent for "));
  session.located("master:2");
  session.dial_failed({Errc::unreachable, "refused"}, now);
  for (int heartbeats = 0; heartbeats < 2;) {
    now += 1s;
    if (sent<Heartbeat>(session.tick(now))) ++heartbeats;
  }
  const std::string waits = find<agent_action::WaitingFor>(session.ask(now))->sentence;
  CHECK(waits.starts_with("the master at master:2: refused, or master:29500: silent for "));
  const auto back = session.received(1, Heartbeat{1}, now);
  REQUIRE(find<agent_action::ConnectionChanged>(back) != nullptr);
  CHECK(find<agent_action::ConnectionChanged>(back)->sentence.starts_with(
      "the master at master:29500 is reachable again "));
}

TEST_CASE("a round that begins when the lease is over is started when there is a lease again") {
  AgentSession session = welcomed_session();
  const auto late = session.received(1, ready(0), kGreeted + 10s);
  CHECK(find<agent_action::LeaseOver>(late) != nullptr);
  CHECK(find<agent_action::Received>(late) == nullptr);
  CHECK(sent<Heartbeat>(late));
  const auto old = session.received(1, Heartbeat{1}, kGreeted + 11s);  // to the first one
  CHECK(find<agent_action::Received>(old) == nullptr);
  const auto leased = session.received(1, Heartbeat{1}, kGreeted + 11s);
  REQUIRE(find<agent_action::LeaseRenewed>(leased) != nullptr);
  CHECK(find<agent_action::LeaseRenewed>(leased)->until == kGreeted + 20s);
  CHECK(find<agent_action::Received>(leased) != nullptr);
  for (const AgentActions& actions : {late, old, leased}) CHECK_FALSE(sent<message::Join>(actions));
  const auto again = session.received(1, Heartbeat{1}, kGreeted + 12s);
  CHECK(find<agent_action::Received>(again) == nullptr);
}

TEST_CASE("a node whose hello came late starts the round that it joins, and joins no second time") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.lost(1, {Errc::unreachable, "reset"}, kGreeted + 2s);
  session.connected(2, kGreeted + 3s);  // its hello is on its way for longer than the lease
  const auto anew = session.received(2, welcome(false), kGreeted + 14s);
  CHECK(find<agent_action::RoundLost>(anew) != nullptr);
  CHECK(sent<message::Join>(session.join({}, kGreeted + 14s)));
  const auto early = session.received(2, ready(1), kGreeted + 14s);
  CHECK(find<agent_action::Received>(early) == nullptr);
  CHECK(sent<Heartbeat>(early));
  const auto leased = session.received(2, Heartbeat{1}, kGreeted + 15s);
  REQUIRE(find<agent_action::LeaseRenewed>(leased) != nullptr);
  CHECK(find<agent_action::LeaseRenewed>(leased)->until == kGreeted + 24s);
  CHECK(find<agent_action::Received>(leased) != nullptr);
  for (const AgentActions& actions : {early, leased}) CHECK_FALSE(sent<message::Join>(actions));
}

TEST_CASE("the little that a late hello leaves of a lease is renewed at once") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  const bool resumed = GENERATE(true, false);
  CHECK(sent<Heartbeat>(session.tick(kGreeted + 2s)));
  session.lost(1, {Errc::unreachable, "reset"}, kGreeted + 3s);
  session.connected(2, kGreeted + 3s);
  session.tick(kGreeted + 4s);  // when a heartbeat was due, had there been a line
  const auto back = session.received(2, welcome(resumed), kGreeted + 5s);
  CHECK(sent<Heartbeat>(back));
  if (!resumed) session.join({}, kGreeted + 5s);
  const auto leased = session.received(2, Heartbeat{1}, kGreeted + 5s);
  REQUIRE(find<agent_action::LeaseRenewed>(leased) != nullptr);
  CHECK(find<agent_action::LeaseRenewed>(leased)->until == kGreeted + 15s);
}

TEST_CASE("a node whose round waits for a lease says so, whatever the master says of its members") {
  AgentSession session = welcomed_session();
  const reply::Waiting place{"a place: all 2 nodes of this job are running"};
  const auto waits = [&](AgentSession::Time now) {
    CHECK(sent<message::Ask>(session.ask(now)));
    const auto told = session.received(1, place, now);
    REQUIRE(find<agent_action::WaitingFor>(told) != nullptr);
    return find<agent_action::WaitingFor>(told)->sentence;
  };
  CHECK(waits(kGreeted + 1s) == place.sentence);
  session.received(1, ready(3), kGreeted + 10s);
  CHECK(waits(kGreeted + 11s) ==
        "a lease for round 3, which has begun: the master at master:29500 takes longer to answer "
        "than a lease lasts (--lease)");
}

TEST_CASE("a round that is broken before there is a lease is left: the node joins again") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 10s);
  const auto broken = session.received(1, Notification(Broken{"lost", {}, 0}), kGreeted + 10s);
  CHECK(find<agent_action::Received>(broken) == nullptr);
  const auto join = sent<message::Join>(broken);
  REQUIRE(join);
  CHECK(join->request.last_round == 0);
  session.received(1, Heartbeat{1}, kGreeted + 11s);
  const auto leased = session.received(1, Heartbeat{1}, kGreeted + 11s);
  CHECK(find<agent_action::LeaseRenewed>(leased) != nullptr);
  CHECK(find<agent_action::Received>(leased) == nullptr);  // of that round
  CHECK(find<agent_action::Received>(session.received(1, ready(1), kGreeted + 12s)) != nullptr);
}

TEST_CASE(
    "a round that waits for a lease is started by the master that began it, and by no other") {
  AgentSession session = welcomed_session();
  session.received(1, ready(3), kGreeted + 10s);
  session.lost(1, {Errc::closed, "closed"}, kGreeted + 11s);
  session.connected(2, kGreeted + 11s);
  SECTION("which is back") {
    const auto back = session.received(2, welcome(true), kGreeted + 11s);
    CHECK(find<agent_action::LeaseRenewed>(back) != nullptr);
    CHECK(find<agent_action::Received>(back) != nullptr);
  }
  SECTION("which has a successor") {
    const auto other = session.received(2, welcome(false, "another"), kGreeted + 11s);
    CHECK(find<agent_action::LeaseRenewed>(other) != nullptr);
    CHECK(find<agent_action::Received>(other) == nullptr);
    REQUIRE(sent<message::Join>(other));
    CHECK(sent<message::Join>(other)->request.last_round == 3);
  }
}

TEST_CASE("a round that has waited for a lease is lost like any other with its master") {
  AgentSession session = welcomed_session();
  session.received(1, ready(3), kGreeted + 10s);
  session.received(1, Heartbeat{1}, kGreeted + 11s);
  const auto started = session.received(1, Heartbeat{1}, kGreeted + 11s);
  CHECK(find<agent_action::Received>(started) != nullptr);
  session.lost(1, {Errc::closed, "closed"}, kGreeted + 12s);
  session.connected(2, kGreeted + 12s);
  const auto other = session.received(2, welcome(false, "another"), kGreeted + 12s);
  CHECK(find<agent_action::RoundLost>(other) != nullptr);
  CHECK_FALSE(sent<message::Join>(other));  // its workers run
}

TEST_CASE("what a node told of the round before one that waits for a lease, it tells once") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.fail(0, exit_9(), kGreeted + 2s);
  session.lost(1, {Errc::closed, "closed"}, kGreeted + 3s);
  session.connected(2, kGreeted + 4s);  // its hello is on its way for longer than the lease
  session.received(2, welcome(false, "n"), kGreeted + 15s);
  JoinRequest request;
  request.last_round = 0;
  request.worker_exits.signal = "SIGTERM";
  const auto first = sent<message::Join>(session.join(request, kGreeted + 15s));
  CHECK((first && first->request.unreported_failure));
  Layout layout;
  layout.round = layout.restarts = 1;
  const auto early = session.received(2, Notification(Ready{layout}), kGreeted + 15s);
  CHECK(find<agent_action::FailureCounted>(early) != nullptr);
  CHECK(find<agent_action::Received>(early) == nullptr);
  const Notification broken(Broken{"a node is lost", {}, 0});
  const auto again = sent<message::Join>(session.received(2, broken, kGreeted + 15s));
  REQUIRE(again);
  CHECK_FALSE(again->request.unreported_failure);

  session.lost(2, {Errc::closed, "closed"}, kGreeted + 16s);
  session.connected(3, kGreeted + 16s);
  const auto next = session.received(3, welcome(false, "o"), kGreeted + 16s);
  const auto join = sent<message::Join>(next);
  REQUIRE(join);
  CHECK(join->request.last_master == "n");
  CHECK(join->request.last_round == 1);
  CHECK(join->request.last_restarts == 1);
  CHECK(join->request.restarts == 1);
  CHECK_FALSE(join->request.unreported_failure);
  CHECK(join->request.worker_exits.signal.empty());
}

TEST_CASE("of a round that it did not start a node says to a new master that it was its last") {
  AgentSession session = welcomed_session();
  Layout layout;
  layout.round = 4;
  layout.restarts = 1;
  layout.node_rank = 2;
  layout.guests = 3;
  session.received(1, Notification(Ready{layout}), kGreeted + 10s);
  const Broken broken{"rank 0 failed", exit_9(), 2};
  const auto news = session.received(1, Notification(broken), kGreeted + 10s);
  CHECK(find<agent_action::Received>(news) == nullptr);  // it is not about this node's own round
  session.lost(1, {Errc::closed, "closed"}, kGreeted + 11s);
  session.connected(2, kGreeted + 11s);
  const auto join =
      sent<message::Join>(session.received(2, welcome(false, "another"), kGreeted + 11s));
  REQUIRE(join);
  CHECK(join->request.last_master == "m");
  CHECK(join->request.last_round == 4);
  CHECK(join->request.last_node_rank == 2);
  CHECK(join->request.last_guests == 3);
  CHECK(join->request.last_restarts == 1);
  CHECK(join->request.restarts == 2);
  session.received(2, ready(5), kGreeted + 12s);
  const auto next = session.received(2, Notification(broken), kGreeted + 13s);
  CHECK(find<agent_action::Received>(next) != nullptr);
}

TEST_CASE("a node that left keeps the lease of its workers, whatever a new master says") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.leave("SIGTERM", kGreeted + 1s);
  CHECK(find<agent_action::Dial>(session.lost(1, {Errc::closed, "closed"}, kGreeted + 2s)));
  session.connected(2, kGreeted + 5s);
  const auto renewed = session.received(2, welcome(false, "another"), kGreeted + 5s);
  CHECK(find<agent_action::LeaseRenewed>(renewed) == nullptr);
  CHECK(find<agent_action::LeaseOver>(session.tick(kGreeted + 10s)) != nullptr);
}

TEST_CASE("a lease ends in time, whatever a process that stood still reads first") {
  AgentSession session = welcomed_session();
  CHECK(find<agent_action::Received>(session.received(1, ready(0), kGreeted + 1s)) != nullptr);
  const auto beat = session.tick(kGreeted + 2s);
  CHECK(sent<Heartbeat>(beat));
  const auto thawed = session.received(1, Heartbeat{1}, kGreeted + 12s);
  CHECK(find<agent_action::LeaseOver>(thawed) != nullptr);
  CHECK(find<agent_action::LeaseRenewed>(thawed) == nullptr);  // sent 10 s before
  CHECK(find<agent_action::LeaseOver>(session.tick(kGreeted + 13s)) == nullptr);
}

TEST_CASE("a failure that a restarted master cannot know is reported to it, and only to it") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.fail(0, exit_9(), kGreeted + 2s);
  SECTION("when the master is still the same") {
    session.received(1, Notification(Broken{"rank 1 failed", exit_9(), 1, false}), kGreeted + 2s);
    CHECK_FALSE(sent<message::Join>(session.join({}, kGreeted + 3s))->request.unreported_failure);
  }
  SECTION("when the workers end before it is reached") {
    session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 3s);
    CHECK_FALSE(sent<message::Join>(session.join({}, kGreeted + 3s)));
    session.connected(2, kGreeted + 4s);
    const auto join = sent<message::Join>(session.received(2, welcome(false, "n"), kGreeted + 4s));
    REQUIRE(join);
    REQUIRE(join->request.unreported_failure);
    CHECK(join->request.unreported_failure->wait_status == 9 << 8);
  }
  SECTION("unless the restart was counted, which is told") {
    session.join({}, kGreeted + 3s);
    session.received(1, Notification(Broken{"rank 1 failed", exit_9(), 1, false}), kGreeted + 3s);
    session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 3s);
    session.connected(2, kGreeted + 4s);
    const auto join = sent<message::Join>(session.received(2, welcome(false, "n"), kGreeted + 4s));
    REQUIRE(join);
    CHECK_FALSE(join->request.unreported_failure);
    CHECK(join->request.restarts == 1);
  }
  SECTION("when the workers end after it is reached") {
    session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 3s);
    session.connected(2, kGreeted + 4s);
    const auto lost = session.received(2, welcome(false, "n"), kGreeted + 4s);
    CHECK(find<agent_action::RoundLost>(lost) != nullptr);
    const auto join = sent<message::Join>(session.join({}, kGreeted + 5s));
    REQUIRE(join->request.unreported_failure);
    CHECK(join->request.last_master == "m");
    Layout layout;
    layout.round = layout.restarts = 1;
    const auto next = session.received(2, Notification(Ready{layout}), kGreeted + 5s);
    REQUIRE(find<agent_action::FailureCounted>(next) != nullptr);
    CHECK(find<agent_action::FailureCounted>(next)->restarts == 1);
    CHECK(find<agent_action::FailureCounted>(next)->failure.wait_status == 9 << 8);
    CHECK(find<agent_action::FailureDropped>(next) == nullptr);
    session.received(2, Notification(Broken{"a node joined", {}, 1, false}), kGreeted + 6s);
    CHECK_FALSE(sent<message::Join>(session.join({}, kGreeted + 7s))->request.unreported_failure);
  }
}

TEST_CASE("a failure for which no restart was counted, as its node was lost, is told") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.fail(0, exit_9(), kGreeted + 2s);
  session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 3s);
  session.join({}, kGreeted + 3s);
  session.connected(2, kGreeted + 13s);
  session.received(2, welcome(false), kGreeted + 13s);
  const auto next = session.received(2, ready(1), kGreeted + 13s);
  CHECK(find<agent_action::FailureCounted>(next) == nullptr);
  REQUIRE(find<agent_action::FailureDropped>(next) != nullptr);
  CHECK(find<agent_action::FailureDropped>(next)->failure.wait_status == 9 << 8);
}

TEST_CASE(
    "what an earlier master counted is no repetition and no acknowledgement to the next one") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.received(1, Heartbeat{1}, kGreeted + 1s);  // the join is acknowledged
  session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 2s);
  session.connected(2, kGreeted + 2s);
  session.received(2, welcome(false, "n"), kGreeted + 2s);
  CHECK(sent<message::Join>(session.join({}, kGreeted + 3s)));
  CHECK(find<agent_action::Received>(session.received(2, ready(1), kGreeted + 3s)) != nullptr);

  session.lost(2, {Errc::closed, "connection closed"}, kGreeted + 4s);
  const auto hello = sent<message::Hello>(session.connected(3, kGreeted + 4s));
  REQUIRE(hello);
  CHECK(hello->received == 1);
  reply::Welcome resumed = welcome(true, "n");
  const auto repeated = session.received(3, resumed, kGreeted + 4s);
  CHECK(sent<message::Join>(repeated));  // it has counted none of this session
}

TEST_CASE("a node that is gone says so, and nothing follows") {
  AgentSession session = welcomed_session();
  const auto gone = sent<message::Gone>(session.gone("its ddprun ended", kGreeted + 1s));
  REQUIRE(gone);
  CHECK(gone->session == "s");
  CHECK_FALSE(session.deadline());
  CHECK(session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 2s).empty());
  CHECK(session.tick(kGreeted + 1h).empty());
}

}  // namespace
}  // namespace ddprun::rendezvous
