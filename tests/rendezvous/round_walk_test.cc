// SPDX-License-Identifier: Apache-2.0
// Random histories: agents that behave as agent/machine does, letters and messages that cross on
// the way, crashes and goodbyes at any time. Whatever happens, the invariants hold.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/round.h"
#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// One simulated agent and the two directions of its connection, each in order.
struct Agent {
  enum class State { joining, running, stopping, draining, done };
  State state = State::joining;
  bool refused = false;
  JoinRequest request;
  std::optional<Layout> layout;                 ///< of the round it was last in
  std::deque<Letter> inbox;                     ///< sent by Round, not read yet
  std::deque<std::function<Letters()>> outbox;  ///< sent to Round, not delivered yet
};

class Walk {
 public:
  explicit Walk(unsigned seed) : random_(seed) {
    spec_.min_nodes = number(1, 4);
    spec_.max_nodes = spec_.min_nodes + number(0, 3);
    spec_.max_restarts = number(0, 8);
    spec_.join_timeout = seconds(number(10, 100));
    spec_.last_call = seconds(number(0, 20));
    ranks_given_ = number(0, 3) == 0;
    round_.emplace(spec_);
  }

  /// How many rounds there were.
  int run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    settle();
    return last_round_ + 1;
  }

 private:
  int number(int from, int to) { return std::uniform_int_distribution<>(from, to)(random_); }

  void step() {
    switch (number(0, 11)) {
      case 0:
        return agents_.size() < 9 ? new_agent() : wait(milliseconds(number(0, 5'000)));
      case 1:
        return wait(milliseconds(number(0, 30'000)));
      case 2:
        return number(0, 3) == 0 ? lose() : wait(milliseconds(number(0, 100)));
      case 3:
      case 4:
        return on_any([this](NodeId id, Agent& agent) { worker_event(id, agent); });
      case 5:
      case 6:
      case 7:
        return on_any([this](NodeId id, Agent& agent) { finish_stopping(id, agent); });
      case 8:
      case 9:
        return on_any([this](NodeId id, Agent& agent) { read(id, agent); });
      default:
        return on_any([this](NodeId, Agent& agent) { deliver(agent); });
    }
  }

  /// From here on nothing bad happens and everybody does what is left to do: the job must end, and
  /// every agent must hear of it.
  void settle() {
    for (int i = 0; i < 10'000 && !all_done(); ++i) {
      bool moved = false;
      for (auto& [id, agent] : agents_) {
        moved |= !agent.outbox.empty() || !agent.inbox.empty() ||
                 agent.state == Agent::State::running || agent.state == Agent::State::stopping;
        deliver(agent);
        read(id, agent);
        finish_stopping(id, agent);
        if (agent.state == Agent::State::running) succeed(id, agent);
      }
      if (!moved) {
        REQUIRE(round_->deadline().has_value());  // else they would wait for ever
        wait(*round_->deadline() - now_);
      }
    }
    REQUIRE(all_done());
    CHECK((everyone_was_refused() || round_->closed()));
  }

  bool everyone_was_refused() const {
    return std::all_of(agents_.begin(), agents_.end(),
                       [](const auto& agent) { return agent.second.refused; });
  }

  bool all_done() const {
    return std::all_of(agents_.begin(), agents_.end(),
                       [](const auto& agent) { return agent.second.state == Agent::State::done; });
  }

  template <class F>
  void on_any(F act) {
    if (agents_.empty()) return;
    auto any = agents_.begin();
    std::advance(any, number(0, static_cast<int>(agents_.size()) - 1));
    act(any->first, any->second);
  }

  void new_agent() {
    const NodeId id = next_id_++;
    Agent& agent = agents_[id];
    agent.request.host = "host-" + std::to_string(id);
    agent.request.local_size = number(1, 8);
    agent.request.is_host = number(0, 4) == 0;
    if (ranks_given_) agent.request.node_rank = number(0, spec_.max_nodes - 1);
    join(id, agent);
  }

  void wait(Round::Clock::duration duration) {
    now_ += duration;
    if (round_->deadline() && *round_->deadline() <= now_) post(round_->tick(now_));
  }

  void lose() {
    if (agents_.empty()) return;
    auto any = agents_.begin();
    std::advance(any, number(0, static_cast<int>(agents_.size()) - 1));
    const NodeId id = any->first;
    agents_.erase(any);  // what was on the way is lost with it
    post(number(0, 1) == 0 ? round_->leave(id, now_)
                           : round_->vanish(id, "connection closed", now_));
  }

  void join(NodeId id, Agent& agent) {
    agent.state = Agent::State::joining;
    agent.outbox.push_back(
        [this, id, request = agent.request] { return round_->join(id, request, now_); });
  }

  void worker_event(NodeId id, Agent& agent) {
    if (agent.state != Agent::State::running) return;
    if (number(0, 2) == 0) return succeed(id, agent);
    Failure failure;
    failure.rank = agent.layout->first_rank;
    failure.host = agent.request.host;
    agent.state = Agent::State::stopping;
    agent.outbox.push_back([this, id, failure, round = agent.layout->round] {
      return round_->fail(id, round, failure, now_);
    });
  }

  void succeed(NodeId id, Agent& agent) {
    agent.state = Agent::State::draining;
    agent.outbox.push_back(
        [this, id, round = agent.layout->round] { return round_->succeed(id, round, now_); });
  }

  void finish_stopping(NodeId id, Agent& agent) {
    if (agent.state == Agent::State::stopping) join(id, agent);
  }

  void deliver(Agent& agent) {
    if (agent.outbox.empty()) return;
    const auto message = std::move(agent.outbox.front());
    agent.outbox.pop_front();
    post(message());
  }

  void post(const Letters& letters) {
    check_round_of(letters);
    for (const auto& [id, letter] : letters) {
      REQUIRE(agents_.count(id) == 1);  // nobody writes to the lost
      agents_[id].inbox.push_back(letter);
    }
  }

  void read(NodeId id, Agent& agent) {
    if (agent.inbox.empty()) return;
    const Letter letter = std::move(agent.inbox.front());
    agent.inbox.pop_front();
    if (auto* ready = std::get_if<Ready>(&letter)) {
      REQUIRE(agent.state == Agent::State::joining);  // so no older worker of it runs
      CHECK(ready->layout.round > (agent.layout ? agent.layout->round : -1));
      agent.layout = ready->layout;
      agent.state = Agent::State::running;
    } else if (std::holds_alternative<Broken>(letter)) {
      if (agent.state == Agent::State::running) agent.state = Agent::State::stopping;
      if (agent.state == Agent::State::draining) join(id, agent);
    } else {
      agent.refused = std::holds_alternative<Refused>(letter);
      agent.state = Agent::State::done;
      agent.outbox.clear();
    }
  }

  /// The Ready letters of one answer are one round, whole.
  void check_round_of(const Letters& letters) {
    std::vector<std::pair<NodeId, Layout>> members;
    for (const auto& [id, letter] : letters) {
      if (auto* ready = std::get_if<Ready>(&letter)) members.emplace_back(id, ready->layout);
    }
    CHECK(round_->restarts() <= spec_.max_restarts);
    if (members.empty()) return;

    CHECK(members.size() >= static_cast<size_t>(spec_.min_nodes));
    CHECK(members.size() <= static_cast<size_t>(spec_.max_nodes));
    std::set<NodeId> ids;
    int next_rank = 0, node_rank = 0;
    for (const auto& [id, layout] : members) {
      const Agent& agent = agents_.at(id);
      CHECK(ids.insert(id).second);
      CHECK(layout.node_rank == node_rank++);
      CHECK(layout.first_rank == next_rank);
      CHECK(layout.local_size == agent.request.local_size);
      CHECK(layout.node_count == static_cast<int>(members.size()));
      CHECK(layout.world_size == members.back().second.world_size);
      CHECK(layout.round == last_round_ + 1);
      CHECK(layout.restarts == round_->restarts());
      next_rank += layout.local_size;
      check_stable(id, layout);
    }
    CHECK(next_rank == members.back().second.world_size);
    ++last_round_;
    ranks_.clear();
    for (const auto& [id, layout] : members) ranks_[id] = layout.node_rank;
  }

  /// A survivor keeps its rank unless the round shrank below it, or a rendezvous host took rank 0.
  void check_stable(NodeId id, const Layout& layout) {
    const auto held = ranks_.find(id);
    if (held == ranks_.end() || ranks_given_ || held->second >= layout.node_count) return;
    if (held->second == 0 || agents_.at(id).request.is_host) return;
    CHECK(layout.node_rank == held->second);
  }

  std::mt19937 random_;
  RoundSpec spec_;
  bool ranks_given_ = false;
  std::optional<Round> round_;
  Round::Time now_{};
  std::map<NodeId, Agent> agents_;
  NodeId next_id_ = 1;
  int last_round_ = -1;
  std::map<NodeId, int> ranks_;  ///< of the last round
};

TEST_CASE("whatever nodes do, rounds are whole, one at a time, and everyone is answered") {
  int rounds = 0;
  for (unsigned seed = 1; seed <= 10'000; ++seed) {
    INFO("seed " << seed);
    rounds += Walk(seed).run(300);
  }
  CHECK(rounds > 15'000);  // else the histories are too tame to mean much
}

TEST_CASE("a job of many nodes forms and breaks in a time that grows with their number") {
  RoundSpec spec;
  spec.min_nodes = spec.max_nodes = 10'000;
  spec.max_restarts = 1;
  Round round(spec);
  JoinRequest request;
  request.local_size = 8;
  Letters letters;
  for (int i = 0; i < spec.max_nodes; ++i) {
    request.node_rank = spec.max_nodes - 1 - i;
    letters = round.join(static_cast<NodeId>(i), request, {});
    CHECK((letters.empty() || i == spec.max_nodes - 1));
  }
  CHECK(letters.size() == 10'000);
  CHECK(std::get<Ready>(letters.back().second).layout.first_rank == 79'992);
  CHECK(round.fail(7, 0, Failure{}, {}).size() == 10'000);
}

}  // namespace
}  // namespace ddprun::rendezvous
