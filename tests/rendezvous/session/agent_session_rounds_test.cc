// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/session/agent_session_steps.h"

namespace ddprun::rendezvous {
namespace {

TEST_CASE("a round that begins without a lease is started when there is a lease again") {
  AgentSession session = welcomed_session();
  const auto late = session.received(1, ready(0), kGreeted + 10s);
  CHECK(find_event<node_event::LeaseOver>(late) != nullptr);
  CHECK(find_event<node_event::Notified>(late) == nullptr);
  CHECK(sent<Heartbeat>(late));
  const auto old = session.received(1, Heartbeat{1}, kGreeted + 11s);  // answers the first
  CHECK(find_event<node_event::Notified>(old) == nullptr);
  const auto leased = session.received(1, Heartbeat{1}, kGreeted + 11s);
  REQUIRE(find_event<node_event::LeaseRenewed>(leased) != nullptr);
  CHECK(find_event<node_event::LeaseRenewed>(leased)->until == kGreeted + 20s);
  CHECK(find_event<node_event::Notified>(leased) != nullptr);
  for (const AgentActions& actions : {late, old, leased}) CHECK_FALSE(sent<message::Join>(actions));
  const auto again = session.received(1, Heartbeat{1}, kGreeted + 12s);
  CHECK(find_event<node_event::Notified>(again) == nullptr);
}

TEST_CASE("a node whose hello came late starts the round that it joins, and joins no second time") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.lost(1, {Errc::unreachable, "reset"}, kGreeted + 2s);
  session.connected(2, kGreeted + 3s);  // its hello is on its way for longer than the lease
  const auto greeted = session.received(2, welcome(false), kGreeted + 14s);
  CHECK(find_event<node_event::RoundLost>(greeted) != nullptr);
  CHECK(sent<message::Join>(session.join({}, kGreeted + 14s)));
  const auto early = session.received(2, ready(1), kGreeted + 14s);
  CHECK(find_event<node_event::Notified>(early) == nullptr);
  CHECK(sent<Heartbeat>(early));
  const auto leased = session.received(2, Heartbeat{1}, kGreeted + 15s);
  REQUIRE(find_event<node_event::LeaseRenewed>(leased) != nullptr);
  CHECK(find_event<node_event::LeaseRenewed>(leased)->until == kGreeted + 24s);
  CHECK(find_event<node_event::Notified>(leased) != nullptr);
  for (const AgentActions& actions : {early, leased}) CHECK_FALSE(sent<message::Join>(actions));
}

TEST_CASE("a lease that a late hello has left short is renewed at once") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  const bool resumed = GENERATE(true, false);
  CHECK(sent<Heartbeat>(session.tick(kGreeted + 2s)));
  session.lost(1, {Errc::unreachable, "reset"}, kGreeted + 3s);
  session.connected(2, kGreeted + 3s);
  session.tick(kGreeted + 4s);  // a heartbeat is due, but there is no line
  const auto back = session.received(2, welcome(resumed), kGreeted + 5s);
  CHECK(sent<Heartbeat>(back));
  if (!resumed) session.join({}, kGreeted + 5s);
  const auto leased = session.received(2, Heartbeat{1}, kGreeted + 5s);
  REQUIRE(find_event<node_event::LeaseRenewed>(leased) != nullptr);
  CHECK(find_event<node_event::LeaseRenewed>(leased)->until == kGreeted + 15s);
}

TEST_CASE("a node whose round waits for a lease says so, whatever the master says of its members") {
  AgentSession session = welcomed_session();
  const reply::Waiting place{"a place: all 2 nodes of this job are running"};
  const auto waits = [&](AgentSession::Time now) {
    CHECK(sent<message::Ask>(session.ask(now)));
    const auto told = session.received(1, place, now);
    REQUIRE(find_event<node_event::WaitingFor>(told) != nullptr);
    return find_event<node_event::WaitingFor>(told)->sentence;
  };
  CHECK(waits(kGreeted + 1s) == place.sentence);
  session.received(1, ready(3), kGreeted + 10s);
  CHECK(waits(kGreeted + 11s) ==
        "a lease for round 3, which has begun: the master at master:29500 takes longer to answer "
        "than a lease lasts (--lease)");
}

TEST_CASE(
    "a node whose round waits for a lease makes no progress, which counts for --hang_timeout") {
  AgentSession session = new_session();
  JoinRequest request;
  request.local_size = 2;
  session.join(request, kGreeted);
  session.connected(1, kGreeted);
  reply::Welcome greeting = welcome(false);
  greeting.hang_timeout = 60s;
  session.received(1, greeting, kGreeted);
  session.received(1, ready(3), kGreeted + 10s);
  CHECK_FALSE(sent<message::Progress>(session.tick(kGreeted + 69s)));
  const auto quiet = sent<message::Progress>(session.tick(kGreeted + 71s));
  REQUIRE(quiet);
  CHECK(quiet->progress.round == 3);
  CHECK(quiet->progress.quiet);
  CHECK(quiet->progress.seconds >= 60);
  REQUIRE(quiet->progress.places.size() == 1);
  CHECK(quiet->progress.places[0].ranks == std::vector<int>{0});
  CHECK(quiet->progress.places[0].what == "not started, as this node waits for a lease");
  CHECK_FALSE(sent<message::Progress>(session.tick(kGreeted + 73s)));
  const auto answered = [&] { return session.received(1, Heartbeat{1}, kGreeted + 74s); };
  AgentActions leased = answered();
  while (find_event<node_event::Notified>(leased) == nullptr) leased = answered();
  const auto begun = sent<message::Progress>(leased);
  REQUIRE(begun);
  CHECK_FALSE(begun->progress.quiet);
}

TEST_CASE("a node joins again if its round is broken before there is a lease") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 10s);
  const auto broken = session.received(1, Notification(Broken{"lost", {}, 0}), kGreeted + 10s);
  CHECK(find_event<node_event::Notified>(broken) == nullptr);
  const auto join = sent<message::Join>(broken);
  REQUIRE(join);
  CHECK(join->request.last_round == 0);
  session.received(1, Heartbeat{1}, kGreeted + 11s);
  const auto leased = session.received(1, Heartbeat{1}, kGreeted + 11s);
  CHECK(find_event<node_event::LeaseRenewed>(leased) != nullptr);
  CHECK(find_event<node_event::Notified>(leased) == nullptr);  // not that round
  CHECK(find_event<node_event::Notified>(session.received(1, ready(1), kGreeted + 12s)) != nullptr);
}

TEST_CASE(
    "a round that waits for a lease is started by the master that began it, and by no other") {
  AgentSession session = welcomed_session();
  session.received(1, ready(3), kGreeted + 10s);
  session.lost(1, {Errc::closed, "closed"}, kGreeted + 11s);
  session.connected(2, kGreeted + 11s);
  SECTION("the master is back") {
    const auto back = session.received(2, welcome(true), kGreeted + 11s);
    CHECK(find_event<node_event::LeaseRenewed>(back) != nullptr);
    CHECK(find_event<node_event::Notified>(back) != nullptr);
  }
  SECTION("the master has a successor") {
    const auto other = session.received(2, welcome(false, "another"), kGreeted + 11s);
    CHECK(find_event<node_event::LeaseRenewed>(other) != nullptr);
    CHECK(find_event<node_event::Notified>(other) == nullptr);
    REQUIRE(sent<message::Join>(other));
    CHECK(sent<message::Join>(other)->request.last_round == 3);
  }
}

TEST_CASE("a round that has waited for a lease is lost like any other with its master") {
  AgentSession session = welcomed_session();
  session.received(1, ready(3), kGreeted + 10s);
  session.received(1, Heartbeat{1}, kGreeted + 11s);
  const auto started = session.received(1, Heartbeat{1}, kGreeted + 11s);
  CHECK(find_event<node_event::Notified>(started) != nullptr);
  session.lost(1, {Errc::closed, "closed"}, kGreeted + 12s);
  session.connected(2, kGreeted + 12s);
  const auto other = session.received(2, welcome(false, "another"), kGreeted + 12s);
  CHECK(find_event<node_event::RoundLost>(other) != nullptr);
  CHECK_FALSE(sent<message::Join>(other));  // its workers run
}

TEST_CASE("a node reports a failure once, even if the next round waits for a lease") {
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
  CHECK(find_event<node_event::FailureCounted>(early) != nullptr);
  CHECK(find_event<node_event::Notified>(early) == nullptr);
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

TEST_CASE("a node reports an unstarted round to the new master as its last") {
  AgentSession session = welcomed_session();
  Layout layout;
  layout.round = 4;
  layout.restarts = 1;
  layout.node_rank = 2;
  layout.guests = 3;
  session.received(1, Notification(Ready{layout}), kGreeted + 10s);
  const Broken broken{"rank 0 failed", exit_9(), 2};
  const auto news = session.received(1, Notification(broken), kGreeted + 10s);
  CHECK(find_event<node_event::Notified>(news) ==
        nullptr);  // it is not about this node's own round
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
  CHECK(find_event<node_event::Notified>(next) != nullptr);
}

TEST_CASE("a node that left keeps the lease of its workers, whatever a new master says") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.leave("SIGTERM", kGreeted + 1s);
  CHECK(find<agent_action::Dial>(session.lost(1, {Errc::closed, "closed"}, kGreeted + 2s)));
  session.connected(2, kGreeted + 5s);
  const auto renewed = session.received(2, welcome(false, "another"), kGreeted + 5s);
  CHECK(find_event<node_event::LeaseRenewed>(renewed) == nullptr);
  CHECK(find_event<node_event::LeaseOver>(session.tick(kGreeted + 10s)) != nullptr);
}

TEST_CASE("a lease ends in time, whatever a process that stood still reads first") {
  AgentSession session = welcomed_session();
  CHECK(find_event<node_event::Notified>(session.received(1, ready(0), kGreeted + 1s)) != nullptr);
  const auto beat = session.tick(kGreeted + 2s);
  CHECK(sent<Heartbeat>(beat));
  const auto thawed = session.received(1, Heartbeat{1}, kGreeted + 12s);
  CHECK(find_event<node_event::LeaseOver>(thawed) != nullptr);
  CHECK(find_event<node_event::LeaseRenewed>(thawed) == nullptr);  // sent 10 s before
  CHECK(find_event<node_event::LeaseOver>(session.tick(kGreeted + 13s)) == nullptr);
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
  SECTION("unless the restart was counted, which is reported") {
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
    CHECK(find_event<node_event::RoundLost>(lost) != nullptr);
    const auto join = sent<message::Join>(session.join({}, kGreeted + 5s));
    REQUIRE(join->request.unreported_failure);
    CHECK(join->request.last_master == "m");
    Layout layout;
    layout.round = layout.restarts = 1;
    const auto next = session.received(2, Notification(Ready{layout}), kGreeted + 5s);
    REQUIRE(find_event<node_event::FailureCounted>(next) != nullptr);
    CHECK(find_event<node_event::FailureCounted>(next)->restarts == 1);
    CHECK(find_event<node_event::FailureCounted>(next)->failure.wait_status == 9 << 8);
    CHECK(find_event<node_event::FailureDropped>(next) == nullptr);
    session.received(2, Notification(Broken{"a node joined", {}, 1, false}), kGreeted + 6s);
    CHECK_FALSE(sent<message::Join>(session.join({}, kGreeted + 7s))->request.unreported_failure);
  }
}

TEST_CASE("a failure for which no restart was counted, as its node was lost, is reported") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.fail(0, exit_9(), kGreeted + 2s);
  session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 3s);
  session.join({}, kGreeted + 3s);
  session.connected(2, kGreeted + 13s);
  session.received(2, welcome(false), kGreeted + 13s);
  const auto next = session.received(2, ready(1), kGreeted + 13s);
  CHECK(find_event<node_event::FailureCounted>(next) == nullptr);
  REQUIRE(find_event<node_event::FailureDropped>(next) != nullptr);
  CHECK(find_event<node_event::FailureDropped>(next)->failure.wait_status == 9 << 8);
}

TEST_CASE("an earlier master's counts neither repeat nor acknowledge anything for the next one") {
  AgentSession session = welcomed_session();
  session.received(1, ready(0), kGreeted + 1s);
  session.received(1, Heartbeat{1}, kGreeted + 1s);  // the join is acknowledged
  session.lost(1, {Errc::closed, "connection closed"}, kGreeted + 2s);
  session.connected(2, kGreeted + 2s);
  session.received(2, welcome(false, "n"), kGreeted + 2s);
  CHECK(sent<message::Join>(session.join({}, kGreeted + 3s)));
  CHECK(find_event<node_event::Notified>(session.received(2, ready(1), kGreeted + 3s)) != nullptr);

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
