// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/session/agent_session_steps.h"

namespace ddprun::rendezvous {
namespace {

/// The time that it waits on each of the next lines, which get no answer from `now` on.
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

TEST_CASE("an agent waits longer on each line that a busy master does not answer") {
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
  SECTION("without a lease it begins with the shortest time") {
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
  CHECK(find_event<node_event::LeaseRenewed>(session.received(3, welcome(false), kGreeted + 13s)));
  session.proven(3, kGreeted + 13s);
  CHECK(find<agent_action::Close>(session.tick(kGreeted + 14s)) == nullptr);
}

TEST_CASE("a port where no master answers is distinguished from one where nothing listens") {
  AgentSession session = new_session();
  session.join({}, kGreeted);
  const auto waiting = [&session](AgentSession::Time now) {
    const AgentActions asked = session.ask(now);
    const auto* report = find_event<node_event::WaitingFor>(asked);
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

TEST_CASE("another program at the master's port ends only a node that has had no master yet") {
  const Error stranger{Errc::protocol, "HTTP"};
  AgentSession fresh = new_session();
  fresh.join({}, kGreeted);
  fresh.connected(1, kGreeted);
  const auto ended = fresh.lost(1, stranger, kGreeted);
  const auto* const end = find_event<node_event::GaveUp>(ended);
  REQUIRE(end != nullptr);
  CHECK(end->error.message == "the server at master:29500 is not a ddprun master: HTTP");

  // While the master is restarted, another program may have its port.
  AgentSession session = welcomed_session();
  session.lost(1, {Errc::unreachable, "reset"}, kGreeted + 1s);
  session.connected(2, kGreeted + 1s);
  CHECK(find_event<node_event::GaveUp>(session.lost(2, stranger, kGreeted + 1s)) == nullptr);
  CHECK(find<agent_action::Dial>(session.tick(kGreeted + 2s)) != nullptr);
  session.connected(3, kGreeted + 2s);
  CHECK(find_event<node_event::LeaseRenewed>(session.received(3, welcome(true), kGreeted + 2s)));
}

TEST_CASE("a master whose messages cannot be read is not dialed again without a pause") {
  AgentSession session = welcomed_session();
  const auto lost = session.lost(1, {Errc::protocol, "unknown message type"}, kGreeted + 1s);
  CHECK(find_event<node_event::GaveUp>(lost) == nullptr);
  CHECK(find<agent_action::Dial>(lost) == nullptr);
  CHECK(find<agent_action::Dial>(session.tick(kGreeted + 2s)) != nullptr);
}

TEST_CASE("another program at an elected master's address is a failed attempt") {
  AgentSession session = new_session(Where::elected);
  session.join({}, kGreeted);
  session.connected(1, kGreeted);
  CHECK(find_event<node_event::GaveUp>(session.lost(1, {Errc::protocol, "HTTP"}, kGreeted)) ==
        nullptr);
  const auto asked = session.ask(kGreeted);
  REQUIRE(find_event<node_event::WaitingFor>(asked) != nullptr);
  CHECK(find_event<node_event::WaitingFor>(asked)->sentence.starts_with(
      "the master at master:29500: it is not a ddprun master: HTTP"));
  CHECK(find<agent_action::Dial>(session.tick(kGreeted + 2s)) != nullptr);
}

TEST_CASE("another job or another program at a place of a searched master is a failed attempt") {
  AgentSession session = new_session(Where::searched);
  session.join({}, kGreeted);
  session.connected(1, kGreeted);
  const auto refused =
      session.received(1, Notification(Refused{"other job", false, true}), kGreeted);
  CHECK(find_event<node_event::Notified>(refused) == nullptr);
  CHECK(find<agent_action::Close>(refused)->connection == 1);
  session.tick(kGreeted + 2s);
  session.located("master:2");
  session.connected(2, kGreeted + 2s);
  session.lost(2, {Errc::protocol, "HTTP"}, kGreeted + 2s);
  session.tick(kGreeted + 4s);
  session.located("master:3");
  CHECK(find_event<node_event::GaveUp>(
            session.dial_failed({Errc::usage, "no key"}, kGreeted + 4s)) == nullptr);
  CHECK(find_event<node_event::WaitingFor>(session.ask(kGreeted + 4s))
            ->sentence.starts_with("the master at master:2: it is not a ddprun master: HTTP, or "
                                   "master:29500: it refused this node: other job, or "));

  session.tick(kGreeted + 6s);
  session.located("master:2");
  session.dial_failed({Errc::usage, "no key"}, kGreeted + 6s);
  CHECK(find_event<node_event::WaitingFor>(session.ask(kGreeted + 6s))
            ->sentence.starts_with("the master at master:2, master:3: no key, or master:29500: "));

  // The time for all attempts runs on.
  const auto ended = session.tick(kGreeted + 600s);
  REQUIRE(find_event<node_event::GaveUp>(ended) != nullptr);

  // A refusal by its own job is final.
  AgentSession other = new_session(Where::searched);
  other.join({}, kGreeted);
  other.connected(1, kGreeted);
  CHECK(find_event<node_event::Notified>(
            other.received(1, Notification(Refused{"--nnodes"}), kGreeted)) != nullptr);
}

TEST_CASE("a silent master is reported with its own place, whichever place is dialed") {
  AgentSession session = new_session(Where::searched);
  session.join({}, kGreeted);
  session.connected(1, kGreeted);
  session.received(1, welcome(false), kGreeted);
  AgentSession::Time now = kGreeted;
  AgentActions silent;
  while (find_event<node_event::ConnectionChanged>(silent) == nullptr)
    silent = session.tick(now += 1s);
  CHECK(find_event<node_event::ConnectionChanged>(silent)->sentence.starts_with(
      "the master at master:29500 is silent for "));
  session.located("master:2");
  session.dial_failed({Errc::unreachable, "refused"}, now);
  for (int heartbeats = 0; heartbeats < 2;) {
    now += 1s;
    if (sent<Heartbeat>(session.tick(now))) ++heartbeats;
  }
  const std::string waits = find_event<node_event::WaitingFor>(session.ask(now))->sentence;
  CHECK(waits.starts_with("the master at master:2: refused, or master:29500: silent for "));
  const auto back = session.received(1, Heartbeat{1}, now);
  REQUIRE(find_event<node_event::ConnectionChanged>(back) != nullptr);
  CHECK(find_event<node_event::ConnectionChanged>(back)->sentence.starts_with(
      "the master at master:29500 is reachable again "));
}

}  // namespace
}  // namespace ddprun::rendezvous
