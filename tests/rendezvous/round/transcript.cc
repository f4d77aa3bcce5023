// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/round/transcript.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "rendezvous/round/round.h"

namespace ddprun::rendezvous {
namespace {

using std::to_string;
using std::chrono::milliseconds;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string text(const Ending& ending) {
  return std::visit(Overloaded{
                        [](const Succeeded&) { return std::string("succeeded"); },
                        [](const Failed& e) {
                          return "failed in round " + to_string(e.round) + ", root cause rank " +
                                 to_string(e.root_cause.rank) + " on " + e.root_cause.host + "; " +
                                 e.no_restart + (e.suspect.empty() ? "" : "\n" + e.suspect) +
                                 (e.summary.empty() ? "" : "\n" + e.summary);
                        },
                        [](const TimedOut& e) { return "timed out: " + e.sentence; },
                    },
                    ending);
}

std::string text(const Notification& notification) {
  return std::visit(
      Overloaded{
          [](const Ready& ready) {
            const Layout& at = ready.layout;
            return "ready round " + to_string(at.round) + " restarts " + to_string(at.restarts) +
                   " node " + to_string(at.node_rank) + " of " + to_string(at.node_count) +
                   " ranks " + to_string(at.first_rank) + "-" +
                   to_string(at.first_rank + at.local_size - 1) + " of " +
                   to_string(at.world_size) +
                   (at.guests < at.node_count ? " guests " + to_string(at.guests) : "") +
                   (at.role ? " in its role from " + to_string(at.role->first_rank) + " of " +
                                  to_string(at.role->world_size)
                            : "") +
                   (at.store_port > 0 ? " store port " + to_string(at.store_port) : "") +
                   (ready.suspect.empty() ? "" : "\n" + ready.suspect);
          },
          [](const Broken& broken) {
            std::string text = "broken: " + broken.reason;
            if (broken.root_cause)
              text += "; root cause rank " + to_string(broken.root_cause->rank);
            return text + "; restarts " + to_string(broken.restarts) +
                   (broken.ends_job ? "; ends the job" : "");
          },
          [](const Closed& closed) { return "closed: " + text(closed.ending); },
          [](const Refused& refused) {
            return (refused.left_out ? "left out: " : "refused: ") + refused.sentence;
          },
          [](const Stalled& stalled) { return "stalled: " + stalled.text; },
      },
      notification);
}

/// "1500ms", "60s", "5min", "1h".
milliseconds duration(const std::string& text) {
  size_t end = 0;
  const int number = std::stoi(text, &end);
  const std::string unit = text.substr(end);
  const int factor = unit == "ms" ? 1 : unit == "s" ? 1'000 : unit == "min" ? 60'000 : 3'600'000;
  return milliseconds(number) * factor;
}

/// "0,1,5".
std::vector<int> numbers(const std::string& text) {
  std::vector<int> all;
  std::istringstream list(text);
  for (std::string number; std::getline(list, number, ',');) all.push_back(std::stoi(number));
  return all;
}

/// Reads the next word of `failed-worker 2 (exit 1) timed-out asleep 1 stopped 0,1 killed 1 by
/// SIGTERM in 12ms`.
void read_worker_exits(const std::string& key, std::istringstream& words,
                       WorkerExits& worker_exits) {
  std::string value;
  if (key == "failed-worker") {
    FailedWorker worker;
    words >> worker.rank;
    words.ignore(2);
    std::getline(words, worker.how, ')');
    worker_exits.failed.push_back(worker);
  }
  if (key == "timed-out") worker_exits.failed.back().consequence = true;
  if (key == "asleep" && words >> value) {
    worker_exits.places.push_back({numbers(value), WorkerPlace::Kind::elsewhere, "asleep", 60});
  }
  if (key == "stopped" && words >> value) worker_exits.stopped = numbers(value);
  if (key == "killed" && words >> value) worker_exits.killed = numbers(value);
  if (key == "by") words >> worker_exits.signal;
  if (key == "in" && words >> value) {
    worker_exits.seconds = std::chrono::duration<double>(duration(value)).count();
  }
}

/// Reads the next word of `failed rank 1 after 3s`.
void read_failure(const std::string& key, std::istringstream& words, JoinRequest& request) {
  std::string value;
  if (key == "failed") {
    Failure& failure = request.unreported_failure.emplace();
    words >> value >> failure.rank;
    failure.host = request.host;
  }
  if (key == "after" && words >> value) {
    request.unreported_failure->seconds = std::chrono::duration<double>(duration(value)).count();
  }
}

std::string text(Round::Phase phase) {
  switch (phase) {
    case Round::Phase::forming:
      return "forming";
    case Round::Phase::active:
      return "active";
    case Round::Phase::ending:
      return "ending";
    case Round::Phase::closed:
      return "closed";
  }
  return "unnamed phase";
}

/// The row of the table in round.h for a join of `node`.
std::string join_row(const Nodes& nodes, NodeId node) {
  const auto known = nodes.find(node);
  if (known == nodes.end()) return "join, others";
  const NodeState state = known->second.state;
  if (state == NodeState::returning) return "join, returning";
  return state == NodeState::running || state == NodeState::finished ? "join, member"
                                                                     : "join, others";
}

class Replay {
 public:
  explicit Replay(std::vector<Step>* steps) : steps_(steps) {}

  /// The notifications that `command` brings, one a line; nullopt: not a command.
  std::optional<std::string> perform(const std::string& command) {
    std::istringstream words(command);
    std::string first, verb;
    words >> first;
    if (first == "nodes") return configure(words);
    if (!round_) return std::nullopt;
    if (first == "waiting?") return "waiting: " + round_->waiting_for() + "\n";

    words >> verb;
    if (verb == "pass") return pass(duration(first));
    if (verb == "restarts" && first == "master") return restart();
    if (verb == "joins") return join(first, words);

    const NodeId node = id_of(first);
    if (verb == "leaves") return texts(step("leave", [&] { return round_->leave(node, now_); }));
    if (verb == "vanishes:") {
      ids_.erase(first);
      const std::string reason = command.substr(command.find(": ") + 2);
      return texts(step("vanish", [&] { return round_->vanish(node, reason, now_); }));
    }
    if (verb == "dies:") {
      ids_.erase(first);
      const std::string fault = command.substr(command.find(": ") + 2);
      return texts(step("vanish", [&] { return round_->vanish(node, "killed", now_, fault); }));
    }
    if (verb == "succeeds") {
      const int round = round_of(node, words);
      return texts(step("succeed", [&] { return round_->succeed(node, round, now_); }));
    }
    if (verb == "fails") {
      Failure failure;
      failure.host = first;
      words >> verb >> failure.rank;
      failure.pid = 1;
      const int round = round_of(node, words);
      return texts(step("fail", [&] { return round_->fail(node, round, failure, now_); }));
    }
    return std::nullopt;
  }

 private:
  std::string configure(std::istringstream& words) {
    char colon = 0;
    words >> spec_.min_nodes >> colon >> spec_.max_nodes;
    std::string value;
    for (std::string key; words >> key >> value;) {
      if (key == "restarts") spec_.max_restarts = std::stoi(value);
      if (key == "window") spec_.restart_window = duration(value);
      if (key == "backoff") spec_.restart_backoff = duration(value);
      if (key == "min_uptime") spec_.min_uptime = duration(value);
      if (key == "join_timeout") spec_.join_timeout = duration(value);
      if (key == "last_call") spec_.last_call = duration(value);
      if (key == "lease") eviction_timeout_ = duration(value);
    }
    round_.emplace(spec_, eviction_timeout_, "this");
    return "";
  }

  /// Replaces the master; all connections are new then.
  std::string restart() {
    round_.emplace(spec_, eviction_timeout_, "this");
    ids_.clear();
    return "";
  }

  std::string join(const std::string& name, std::istringstream& words) {
    JoinRequest request;
    request.host = name;
    request.last_master = "earlier";
    words >> request.local_size;
    for (std::string key; words >> key;) {
      int rank = 0;
      if (key == "rank" && words >> rank) request.node_rank = rank;
      if (key == "host") words >> request.host;
      if (key == "hosting") request.is_host = true;
      if (key == "master") request.is_host = request.hosting = true;
      if (key == "role") words >> request.role;
      if (key == "store") words >> request.store_port;
      if (key == "round") words >> request.last_round;
      if (key == "of") words >> request.last_master;
      if (key == "guests") words >> request.last_guests;
      if (key == "runs" && words >> request.command) {
        request.command_hash = std::hash<std::string>()(request.command);
      }
      if (key == "start" && words >> key) request.cannot_run = "cannot run " + key;
      if (key == "told") words >> key >> request.restarts;
      if (key == "restarts" && words >> request.last_restarts) {
        request.restarts = std::max(request.restarts, request.last_restarts);
      }
      read_failure(key, words, request);
      if (key == "node") words >> request.last_node_rank;
      read_worker_exits(key, words, request.worker_exits);
    }
    const NodeId node = id_of(name);
    return texts(
        step(join_row(round_->nodes(), node), [&] { return round_->join(node, request, now_); }));
  }

  std::string pass(milliseconds duration) {
    const auto until = now_ + duration;
    std::string all;
    for (auto at = round_->deadline(); at && *at <= until; at = round_->deadline()) {
      now_ = std::max(now_, *at);
      all += tick();
    }
    now_ = until;
    return all + tick();
  }

  std::string tick() {
    return texts(step("tick", [this] { return round_->tick(now_); }));
  }

  /// Calls `send`, which sends Round an event of that name.
  template <class Send>
  Notifications step(const std::string& event, Send send) {
    const std::string before = text(round_->phase());
    Notifications notifications = send();
    if (steps_ != nullptr) steps_->push_back({event, before, text(round_->phase())});
    return notifications;
  }

  std::string texts(const Notifications& notifications) {
    std::string all;
    for (const auto& [id, notification] : notifications) {
      if (auto* ready = std::get_if<Ready>(&notification)) last_round_[id] = ready->layout.round;
      std::istringstream lines(text(notification));
      std::string mark = ": ";
      for (std::string line; std::getline(lines, line); mark = ": | ") {
        all += names_[id] + mark + line + "\n";
      }
    }
    return all;
  }

  /// A name that left and comes back is a new node to Round.
  NodeId id_of(const std::string& name) {
    const auto [found, is_new] = ids_.emplace(name, next_id_);
    if (is_new) names_[next_id_++] = name;
    return found->second;
  }

  int round_of(NodeId node, std::istringstream& words) {
    std::string in, round;
    int number = 0;
    return words >> in >> round >> number ? number : last_round_[node];
  }

  std::vector<Step>* steps_;
  RoundSpec spec_;
  milliseconds eviction_timeout_{0};
  std::optional<Round> round_;
  Round::Time now_{};
  std::map<std::string, NodeId> ids_;
  std::map<NodeId, std::string> names_;
  std::map<NodeId, int> last_round_;
  NodeId next_id_ = 1;
};

}  // namespace

std::string replay(const std::string& transcript, std::vector<Step>* steps) {
  Replay conversation(steps);
  std::istringstream lines(transcript);
  std::string actual;
  for (std::string line; std::getline(lines, line);) {
    const std::string first_word = line.substr(0, line.find(' '));
    if (line == "----" || first_word.ends_with(':')) continue;  // the transcript's answers

    actual += line + "\n";
    if (line.empty() || line[0] == '#') continue;
    const auto answer = conversation.perform(line);
    if (first_word != "nodes") actual += "----\n" + answer.value_or("error: unknown command\n");
  }
  return actual;
}

}  // namespace ddprun::rendezvous
