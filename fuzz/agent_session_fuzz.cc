// SPDX-License-Identifier: Apache-2.0
// A master that sends anything, in any order, on any connection. The agent sends only on existing
// connections, its deadline advances, and nothing follows the end.
//
// Input: one byte, the master's place; then pieces, each one byte for an event and five for its
// values.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "fuzz/target.h"
#include "rendezvous/session/agent_session.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;
using fuzz::require;
using std::chrono::milliseconds;

using Values = std::array<std::uint8_t, 5>;

AgentSession::Settings settings_of(std::uint8_t where) {
  AgentSession::Settings settings;
  settings.master = "m:1";
  settings.run_id = "job";
  settings.session = "s";
  settings.hosting = where % 8 == 7;
  settings.elected = (where & 1U) != 0;
  settings.searched = (where & 2U) != 0;
  return settings;
}

Failure failure_of(const Values& values) {
  Failure failure;
  failure.rank = values[1];
  failure.wait_status = 256;
  return failure;
}

milliseconds time_of(std::uint8_t value) {
  return milliseconds(value == 255 ? 1'000'000'000'000
                                   : value * 20);  // the longest that is decoded
}

Notification notification_of(std::uint8_t kind, const Values& values) {
  Layout layout;
  layout.round = values[1];
  layout.restarts = values[2];
  switch (kind % 8) {
    case 0:
      return Closed{Succeeded{}};
    case 1:
      return Refused{"no", values[1] % 2 == 1, values[2] % 2 == 1};
    case 2:
      return Stalled{"it hangs"};
    case 3:
    case 4:
      return Broken{"a node is lost", {}, values[2], values[3] % 4 == 0};
    default:
      return Ready{layout, ""};
  }
}

Reply reply_of(std::uint8_t kind, const Values& values) {
  switch (kind % 8) {
    case 0:
    case 1:
      return reply::Welcome{std::string(1, static_cast<char>('a' + values[0] % 3)),
                            values[1] % 2 == 1,
                            values[2],
                            time_of(values[3]),
                            time_of(values[4]),
                            3,
                            "t"};
    case 2:
      return Heartbeat{values[0]};
    case 3:
      return reply::Waiting{"a node"};
    case 4:
      return Inquiry(StopJob{});
    case 5:
      return reply::Whose{};
    default:
      return notification_of(values[0], values);
  }
}

/// An agent, and its connections.
class Agent {
 public:
  explicit Agent(std::uint8_t where) : session_(settings_of(where)) {
    hold(session_.join({}, now_));
  }

  void happen(std::uint8_t what, const Values& values) {
    if (what < 128 && !open_.empty()) {
      hold(session_.received(one_of_the_open(values[4]), reply_of(what, values), now_));
    } else if (what < 160 && std::exchange(dials_, false)) {
      open_.insert(++last_);
      hold(session_.connected(last_, now_));
    } else if (what < 168 && std::exchange(dials_, false)) {
      hold(session_.dial_failed(error_of(values[0]), now_));
    } else if (what < 176 && !open_.empty()) {
      const ConnectionId lost = one_of_the_open(values[4]);
      hold(session_.lost(lost, error_of(values[0]), now_));
      open_.erase(lost);
    } else if (what < 224) {
      pass(values);
    } else {
      say(what, values);
    }
  }

 private:
  static Error error_of(std::uint8_t value) {
    static constexpr std::array kCodes = {Errc::closed, Errc::unreachable, Errc::protocol,
                                          Errc::usage};
    return {kCodes.at(value % kCodes.size()), "an error"};
  }

  ConnectionId one_of_the_open(std::uint8_t value) const {
    return *std::next(open_.begin(), static_cast<std::ptrdiff_t>(value % open_.size()));
  }

  void say(std::uint8_t what, const Values& values) {
    switch (what % 6) {
      case 0:
        return hold(session_.fail(values[0], failure_of(values), now_));
      case 1:
        return hold(session_.succeed(values[0], now_));
      case 2:
        return hold(session_.ask(now_));
      case 3:
        return hold(values[0] == 255 ? session_.gone("it ended", now_) : session_.leave("", now_));
      case 4:
        return hold(session_.inquire(ListNodes{}, now_));
      default:
        return hold(session_.join({}, now_));
    }
  }

  void pass(const Values& values) {
    now_ += milliseconds(values[0] * values[1]);
    const auto deadline = session_.deadline();
    hold(session_.tick(now_));
    if (deadline && *deadline <= now_) {
      require(session_.deadline() != deadline, "the deadline moves on");
    }
  }

  void hold(const AgentActions& actions) {
    using namespace agent_action;
    require(actions.empty() || !is_over_, "nothing follows the end");
    for (const AgentAction& action : actions) {
      if (const auto* send = std::get_if<Send>(&action)) {
        require(open_.contains(send->to), "messages are for connections that are open");
      } else if (const auto* close = std::get_if<Close>(&action)) {
        require(open_.erase(close->connection) == 1, "a connection is closed once");
      } else if (std::holds_alternative<Dial>(action)) {
        require(!std::exchange(dials_, true), "one connection is made at a time");
      } else if (std::holds_alternative<StopDialing>(action)) {
        dials_ = false;
      } else if (const auto* event = std::get_if<NodeEvent>(&action)) {
        is_over_ = ends(*event);
      }
    }
    if (is_over_) require(open_.empty() && !dials_ && !session_.deadline(), "the end is the end");
  }

  static bool ends(const NodeEvent& event) {
    const auto* got = std::get_if<node_event::Notified>(&event);
    return std::holds_alternative<node_event::GaveUp>(event) ||
           (got != nullptr && (std::holds_alternative<Closed>(got->notification) ||
                               std::holds_alternative<Refused>(got->notification)));
  }

  AgentSession::Time now_{std::chrono::hours(1)};
  AgentSession session_;
  std::set<ConnectionId> open_;
  ConnectionId last_ = 0;
  bool dials_ = false;
  bool is_over_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Agent agent(data[0]);
  std::span<const std::uint8_t> rest(data + 1, size - 1);
  for (Values values{}; rest.size() > values.size(); rest = rest.subspan(1 + values.size())) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = rest[i + 1];
    agent.happen(rest[0], values);
  }
  return 0;
}
