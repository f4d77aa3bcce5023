// SPDX-License-Identifier: Apache-2.0
// Agents that send anything, in any order, on any connection. The master acts only on existing
// connections, its deadline advances, and it reports the end of the job to all.
//
// Input: pieces, each one byte for an event and five for its values.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>

#include "fuzz/target.h"
#include "rendezvous/session/server_sessions.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;
using fuzz::require;

using Values = std::array<std::uint8_t, 5>;

constexpr int kNodes = 3;

/// Small numbers, also negative ones, and some large ones.
int number(std::uint8_t value) {
  if (value >= 250) return (1 << 30) + value;
  return value % 16 - 2;
}

std::string session(std::uint8_t value) {
  return "s" + std::to_string(value % 5);
}

ServerSessions::Options options() {
  ServerSessions::Options options;
  options.name = "m";
  options.run_id = "job";
  options.round.min_nodes = 2;
  options.round.max_nodes = kNodes;
  options.round.max_restarts = 2;
  options.loss_text = [](const Failure& failure) { return failure.cause; };
  return options;
}

Failure failure_of(const Values& values) {
  Failure failure;
  failure.rank = number(values[1]);
  failure.wait_status = values[2] % 2 == 0 ? 256 : 9;
  failure.seconds = values[3];
  failure.host = session(values[4]);
  return failure;
}

message::Hello hello_of(const Values& values) {
  message::Hello hello;
  hello.run_id = values[0] == 255 ? "other" : "job";
  hello.min_nodes = 2;
  hello.max_nodes = values[1] == 255 ? kNodes + 1 : kNodes;
  hello.host = hello.session = session(values[2]);
  hello.received = values[3];
  if (values[4] % 4 == 0) hello.ticket = "m/" + std::to_string(values[4] / 4);
  return hello;
}

message::Join join_of(const Values& values) {
  JoinRequest request;
  request.host = session(values[0]);
  request.local_size = 1 + values[0] % 3;
  if (values[1] % 2 == 1) request.node_rank = number(values[1] / 2);
  request.is_host = values[2] % 8 == 1;
  request.hosting = values[2] == 255;
  if (values[2] == 254) request.cannot_run = "cannot run ./train";
  request.last_round = number(values[3]);
  request.last_node_rank = number(values[4]);
  request.last_guests = values[4] % 5;
  request.restarts = values[3] / 64;
  if (values[4] % 16 == 3) request.unreported_failure = failure_of(values);
  request.worker_exits.stopped = {values[0], values[1]};
  return {request};
}

Message message_of(std::uint8_t kind, const Values& values) {
  switch (kind % 8) {
    case 0:
      return hello_of(values);
    case 1:
      return Heartbeat{values[0]};
    case 2:
      return message::Fail{number(values[0]), failure_of(values)};
    case 3:
      return message::Succeed{number(values[0])};
    case 4:
      return message::Leave{};
    case 5:
      return message::Gone{session(values[0]), "it was killed"};
    default:
      return join_of(values);
  }
}

/// A master, and its connections.
class Master {
 public:
  Master() : sessions_(options()) {}

  void happen(std::uint8_t what, const Values& values) {
    const ConnectionId line = 1 + what / 8 % 8;
    const bool known = open_.contains(line);
    if (!known) {
      open_.insert(line);
      hold(sessions_.connected(line, "10.0.0.1", kProtocolVersion + (what == 255 ? 1 : 0), false));
    } else if (what >= 192) {
      pass(values);
    } else if (what >= 128) {
      hold(sessions_.lost(line, now_));
      require(!open_.contains(line), "a connection that was lost is closed");
    } else if (values[4] == 255) {
      hold(sessions_.received(line, Error{Errc::protocol, "no message"}, now_));
    } else {
      hold(sessions_.received(line, message_of(what, values), now_));
    }
    check();
  }

  void require_a_name_of_what_it_waits_for() {
    require(!sessions_.waiting_for(now_).empty() || sessions_.settled(),
            "what is waited for has a name");
  }

 private:
  void pass(const Values& values) {
    now_ += std::chrono::milliseconds(values[0] * values[1]);
    const auto deadline = sessions_.deadline();
    if (!deadline || *deadline > now_) return;
    hold(sessions_.tick(now_));
    require(sessions_.deadline() != deadline, "the deadline moves on");
  }

  void hold(const ServerActions& actions) {
    for (const ServerAction& action : actions) {
      if (const auto* send = std::get_if<server_action::Send>(&action)) {
        require(open_.contains(send->to), "replies are for connections that are open");
      } else if (const auto* close = std::get_if<server_action::Close>(&action)) {
        require(open_.erase(close->connection) == 1, "a connection is closed once");
      }
    }
  }

  void check() {
    const Round& round = sessions_.round();
    int running = 0;
    for (const auto& [id, node] : round.nodes()) running += node.state == NodeState::running;
    require(running <= kNodes, "a round has no more nodes than were allowed");
    require(running == 0 || round.phase() == Round::Phase::active, "nodes run in a round");
    require(round.restarts() <= 2, "restarts are bounded");
  }

  ServerSessions sessions_;
  std::set<ConnectionId> open_;
  ServerSessions::Time now_{std::chrono::hours(1)};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Master master;
  std::span<const std::uint8_t> rest(data, size);
  for (Values values{}; rest.size() > values.size(); rest = rest.subspan(1 + values.size())) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = rest[i + 1];
    master.happen(rest[0], values);
  }
  master.require_a_name_of_what_it_waits_for();
  return 0;
}
