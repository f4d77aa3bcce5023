// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/transcript.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "rendezvous/round.h"

namespace ddprun::rendezvous {
namespace {

using std::to_string;
using std::chrono::seconds;

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
                          return "failed, root cause rank " + to_string(e.root_cause.rank) +
                                 " on " + e.root_cause.host;
                        },
                        [](const TimedOut& e) { return "timed out: " + e.sentence; },
                    },
                    ending);
}

std::string text(const Letter& letter) {
  return std::visit(
      Overloaded{
          [](const Ready& ready) {
            const Layout& at = ready.layout;
            return "ready round " + to_string(at.round) + " restarts " + to_string(at.restarts) +
                   " node " + to_string(at.node_rank) + " of " + to_string(at.node_count) +
                   " ranks " + to_string(at.first_rank) + "-" +
                   to_string(at.first_rank + at.local_size - 1) + " of " + to_string(at.world_size);
          },
          [](const Broken& broken) {
            std::string text = "broken: " + broken.reason;
            if (broken.root_cause)
              text += "; root cause rank " + to_string(broken.root_cause->rank);
            return text + "; restarts " + to_string(broken.restarts);
          },
          [](const Closed& closed) { return "closed: " + text(closed.ending); },
          [](const Refused& refused) { return "refused: " + refused.sentence; },
      },
      letter);
}

class Replay {
 public:
  /// The letters that `command` brings, one a line; nullopt: not a command.
  std::optional<std::string> perform(const std::string& command) {
    std::istringstream words(command);
    std::string first, verb;
    words >> first;
    if (first == "nodes") return configure(words);
    if (!round_) return std::nullopt;
    if (first == "waiting?") return "waiting: " + round_->waiting_for() + "\n";

    words >> verb;
    if (verb == "pass") return pass(std::stoi(first));
    if (verb == "joins") return join(first, words);

    const NodeId node = id_of(first);
    if (verb == "leaves") {
      ids_.erase(first);
      return texts(round_->leave(node, now_));
    }
    if (verb == "vanishes:") {
      ids_.erase(first);
      return texts(round_->vanish(node, command.substr(command.find(": ") + 2), now_));
    }
    if (verb == "succeeds") return texts(round_->succeed(node, round_of(node, words), now_));
    if (verb == "fails") {
      Failure failure;
      failure.host = first;
      words >> verb >> failure.rank;
      return texts(round_->fail(node, round_of(node, words), failure, now_));
    }
    return std::nullopt;
  }

 private:
  std::string configure(std::istringstream& words) {
    RoundSpec spec;
    char colon = 0;
    words >> spec.min_nodes >> colon >> spec.max_nodes;
    for (std::string key; words >> key;) {
      int value = 0;
      std::string unit;
      words >> value;
      if (key == "restarts") spec.max_restarts = value;
      if (key != "restarts") words >> unit;
      if (key == "join_timeout") spec.join_timeout = seconds(value);
      if (key == "last_call") spec.last_call = seconds(value);
    }
    round_.emplace(spec);
    return "";
  }

  std::string join(const std::string& name, std::istringstream& words) {
    JoinRequest request;
    request.host = name;
    words >> request.local_size;
    for (std::string key; words >> key;) {
      int rank = 0;
      if (key == "rank" && words >> rank) request.node_rank = rank;
      if (key == "host") words >> request.host;
      if (key == "hosting") request.is_host = true;
      if (key == "round") words >> request.last_round;
      if (key == "restarts") words >> request.restarts;
      if (key == "node") words >> request.last_node_rank;
    }
    return texts(round_->join(id_of(name), request, now_));
  }

  std::string pass(int duration) {
    const auto until = now_ + seconds(duration);
    std::string all;
    for (auto at = round_->deadline(); at && *at <= until; at = round_->deadline()) {
      now_ = std::max(now_, *at);
      all += texts(round_->tick(now_));
    }
    now_ = until;
    return all;
  }

  std::string texts(const Letters& letters) {
    std::string all;
    for (const auto& [id, letter] : letters) {
      if (auto* ready = std::get_if<Ready>(&letter)) last_round_[id] = ready->layout.round;
      all += names_[id] + ": " + text(letter) + "\n";
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

  std::optional<Round> round_;
  Round::Time now_{};
  std::map<std::string, NodeId> ids_;
  std::map<NodeId, std::string> names_;
  std::map<NodeId, int> last_round_;
  NodeId next_id_ = 1;
};

}  // namespace

std::string replay(const std::string& transcript) {
  Replay conversation;
  std::istringstream lines(transcript);
  std::string actual;
  for (std::string line; std::getline(lines, line);) {
    const std::string first_word = line.substr(0, line.find(' '));
    if (line == "----" || first_word.ends_with(':')) continue;  // the answers of then

    actual += line + "\n";
    if (line.empty() || line[0] == '#') continue;
    const auto answer = conversation.perform(line);
    if (first_word != "nodes") actual += "----\n" + answer.value_or("error: unknown command\n");
  }
  return actual;
}

}  // namespace ddprun::rendezvous
