// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/session/agent_session.h"
#include "tests/catch.h"

// The steps of AgentSession's tests.

namespace ddprun::rendezvous {

using namespace std::chrono_literals;

inline const AgentSession::Time kGreeted(1h);

enum class Where { fixed, elected, searched };

inline AgentSession new_session(Where where = Where::fixed) {
  AgentSession::Settings settings;
  settings.elected = where == Where::elected;
  settings.searched = where == Where::searched;
  settings.master = "master:29500";
  settings.session = "s";
  return AgentSession(settings);
}

inline reply::Welcome welcome(bool resumed, const std::string& master = "m") {
  return {master, resumed, 0, 2s, 10s, 0, master + "/1"};
}

inline Reply ready(int round) {
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

template <class Event>
const Event* find_event(const AgentActions& actions) {
  for (const AgentAction& action : actions) {
    const auto* event = std::get_if<NodeEvent>(&action);
    const auto* found = event != nullptr ? std::get_if<Event>(event) : nullptr;
    if (found != nullptr) return found;
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

/// A session that joined and was welcomed on line 1 at kGreeted.
inline AgentSession welcomed_session() {
  AgentSession session = new_session();
  CHECK(find<agent_action::Dial>(session.join({}, kGreeted)) != nullptr);
  const auto greeted = session.connected(1, kGreeted);
  CHECK(sent<message::Hello>(greeted));
  CHECK(sent<message::Join>(greeted));
  const auto renewed = session.received(1, welcome(false), kGreeted);
  CHECK(find_event<node_event::LeaseRenewed>(renewed)->until == kGreeted + 10s);
  return session;
}

inline Failure exit_9() {
  Failure failure;
  failure.rank = 1;
  failure.wait_status = 9 << 8;
  return failure;
}

}  // namespace ddprun::rendezvous
