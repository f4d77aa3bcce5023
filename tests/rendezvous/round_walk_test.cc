// SPDX-License-Identifier: Apache-2.0
// Random histories: agents that behave as agent/machine does, letters and messages that cross on
// the way, links that are cut in silence, crashes, goodbyes and masters that start anew at any
// time. Whatever happens, the invariants hold.
#include <algorithm>
#include <chrono>
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
using std::chrono::minutes;
using std::chrono::seconds;
using Time = Round::Time;

/// One simulated agent and the two directions of its connection, each in order.
struct Agent {
  enum class State { joining, running, stopping, draining, done };
  State state = State::joining;
  bool refused = false;
  bool leaves = false;         ///< it said goodbye and ends when its workers have
  bool told_end = false;       ///< of the job: likewise
  bool connected = true;       ///< to the master of today
  std::optional<Time> cut;     ///< since when its link is down in silence
  std::optional<Time> doomed;  ///< lost its master: when its workers are killed at the latest
  std::optional<Time> told;    ///< to stop its workers, or told us that it would
  NodeId node = 0;             ///< its number at the master of today
  JoinRequest request;
  std::optional<Layout> layout;                 ///< of the round it was last in
  std::deque<Letter> inbox;                     ///< sent by Round, not read yet
  std::deque<std::function<Letters()>> outbox;  ///< sent to Round, not delivered yet

  bool works() const { return state == State::running || state == State::stopping; }
};

class Walk {
 public:
  explicit Walk(unsigned seed) : random_(seed) {
    spec_.min_nodes = number(1, 4);
    spec_.max_nodes = spec_.min_nodes + number(0, 3);
    spec_.max_restarts = number(0, 8);
    spec_.join_timeout = seconds(number(10, 100));
    spec_.last_call = seconds(number(0, 20));
    if (chance(2)) spec_.restart_window = seconds(number(1, 200));
    if (chance(2)) spec_.restart_backoff = milliseconds(number(1, 20'000));
    if (chance(4)) spec_.min_uptime = seconds(number(1, 20));
    if (chance(2)) spec_.lease = seconds(number(1, 20));
    ranks_given_ = chance(4);
    master_takes_part_ = chance(2);
    round_.emplace(spec_);
    if (master_takes_part_) new_agent(true);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    settle();
  }

  int rounds() const { return rounds_; }
  int resumed() const { return resumed_; }

 private:
  int number(int from, int to) { return std::uniform_int_distribution<>(from, to)(random_); }
  bool chance(int one_in) { return number(1, one_in) == 1; }

  void step() {
    switch (number(0, 12)) {
      case 0:
        return agents_.size() < 9 ? new_agent(false) : wait(milliseconds(number(0, 5'000)));
      case 1:
        return wait(milliseconds(number(0, 30'000)));
      case 2:
        return chance(4) ? misfortune() : wait(milliseconds(number(0, 100)));
      case 3:
      case 4:
        return on_any([this](Agent& agent) { worker_event(agent); });
      case 5:
      case 6:
      case 7:
        return on_any([this](Agent& agent) { end_stopped(agent); });
      case 8:
      case 9:
        return on_any([this](Agent& agent) { read(agent); });
      case 10:
        return on_any([this](Agent& agent) { contact(agent); });
      default:
        return on_any([this](Agent& agent) { deliver(agent); });
    }
  }

  void misfortune() {
    switch (number(0, 6)) {
      case 0:
        return restart_master();
      case 1:
      case 2:
        return on_any([this](Agent& agent) { leave(agent); });
      case 3:
        return on_any([this](Agent& agent) { kill(agent); });
      default:
        return on_any([this](Agent& agent) {
          if (agent.cut) {
            agent.cut.reset();
          } else if (agent.connected && spec_.lease > spec_.lease.zero()) {
            agent.cut = now_;
          }
        });
    }
  }

  /// From here on nothing bad happens and everybody does what is left to do: the job must end, and
  /// every agent must hear of it.
  void settle() {
    for (auto& [name, agent] : agents_) agent.cut.reset();
    for (int i = 0; i < 10'000 && !all_done(); ++i) {
      bool moved = false;
      for (const int name : names()) {
        const auto act = [&](auto&& action) {
          if (agents_.count(name) > 0) action(agents_.at(name));
        };
        act([&](Agent& agent) {
          moved |= !agent.outbox.empty() || !agent.inbox.empty() || agent.works() ||
                   (!agent.connected && !agent.told_end);
          contact(agent);
        });
        act([&](Agent& agent) { deliver(agent); });
        act([&](Agent& agent) { read(agent); });
        act([&](Agent& agent) { end_stopped(agent); });
        act([&](Agent& agent) {
          if (agent.state == Agent::State::running) succeed(agent);
        });
      }
      if (!moved && !all_done()) {
        REQUIRE(round_->deadline().has_value());  // else they would wait for ever
        CHECK(*round_->deadline() > now_);
        CHECK(!round_->waiting_for().empty());
        wait(*round_->deadline() - now_);
      }
    }
    REQUIRE(all_done());
    CHECK((everyone_was_refused() || round_->closed()));
  }

  /// Or was told the end by a master before.
  bool everyone_was_refused() const {
    return std::all_of(agents_.begin(), agents_.end(), [](const auto& agent) {
      return agent.second.refused || !agent.second.connected;
    });
  }

  bool all_done() const {
    return std::all_of(agents_.begin(), agents_.end(), [](const auto& agent) {
      return agent.second.state == Agent::State::done && !agent.second.leaves;
    });
  }

  std::vector<int> names() const {
    std::vector<int> all;
    for (const auto& [name, agent] : agents_) all.push_back(name);
    return all;
  }

  template <class F>
  void on_any(F act) {
    if (agents_.empty()) return;
    auto any = agents_.begin();
    std::advance(any, number(0, static_cast<int>(agents_.size()) - 1));
    act(any->second);
  }

  // What agents do.

  void new_agent(bool hosting) {
    const int name = next_name_++;
    Agent& agent = agents_[name];
    agent.request.host = std::to_string(name);
    agent.request.local_size = number(1, 8);
    agent.request.hosting = hosting;
    agent.request.is_host = hosting || chance(5);
    if (chance(2)) agent.request.store_port = 20'000 + name;
    if (ranks_given_) agent.request.node_rank = number(0, spec_.max_nodes - 1);
    agent.connected = false;
    contact(agent);
  }

  int name_of(const Agent& agent) const { return std::stoi(agent.request.host); }

  /// Finds the master of today, which is not the one of its round: that round is over.
  void contact(Agent& agent) {
    if (agent.connected || agent.leaves || agent.told_end) return;
    agent.connected = true;
    agent.node = ++last_node_;
    at_node_[agent.node] = name_of(agent);
    if (agent.state == Agent::State::running) agent.state = Agent::State::stopping;
    if (agent.state != Agent::State::stopping) join(agent);
  }

  /// Its workers run on until its lease is over, or until it finds a master.
  void disconnect(Agent& agent) {
    agent.connected = false;
    agent.cut.reset();
    agent.inbox.clear();
    agent.outbox.clear();
    at_node_.erase(agent.node);
    if (agent.works()) agent.doomed = now_ + spec_.lease;
  }

  void join(Agent& agent) {
    agent.state = Agent::State::joining;
    if (!agent.connected) return;
    agent.outbox.push_back(
        [this, node = agent.node, request = agent.request] { return joined(node, request); });
  }

  void worker_event(Agent& agent) {
    if (agent.state != Agent::State::running) return;
    if (chance(4)) return succeed(agent);
    agent.state = Agent::State::stopping;
    if (!agent.connected) return;
    Failure failure;
    failure.rank = agent.layout->first_rank;
    failure.host = agent.request.host;
    agent.outbox.push_back([this, node = agent.node, failure, round = agent.layout->round] {
      return failed(node, round, failure);
    });
  }

  void succeed(Agent& agent) {
    agent.state = Agent::State::draining;
    agent.doomed.reset();
    if (!agent.connected) return;
    agent.outbox.push_back([this, node = agent.node, round = agent.layout->round] {
      return round_->succeed(node, round, now_);
    });
  }

  void end_stopped(Agent& agent) {
    if (agent.state == Agent::State::stopping) end_workers(agent);
  }

  void end_workers(Agent& agent) {
    agent.doomed.reset();
    if (agent.leaves) return vanish(agent);
    if (agent.told_end) {
      agent.state = Agent::State::done;
      return;
    }
    agent.request.aftermath = {};
    agent.request.aftermath.stopped = {agent.layout->first_rank};
    agent.request.aftermath.signal = "SIGTERM";
    if (chance(2)) {
      agent.request.aftermath.victims = {
          {number(0, 1'000), "exit " + std::to_string(number(1, 9))}};
    }
    join(agent);
  }

  void leave(Agent& agent) {
    if (agent.leaves || agent.state == Agent::State::done) return;
    agent.leaves = true;
    if (agent.connected) {
      agent.outbox.push_back([this, node = agent.node] {
        Agent& leaver = agents_.at(at_node_.at(node));
        if (!leaver.told) leaver.told = now_;
        return round_->leave(node, now_);
      });
    }
    if (!agent.works()) return vanish(agent);
    agent.state = Agent::State::stopping;
  }

  /// The end of its process, in order, after all that it said.
  void vanish(Agent& agent) {
    agent.state = Agent::State::done;
    const int name = name_of(agent);
    if (!agent.connected) {
      agents_.erase(name);
      return;
    }
    agent.outbox.push_back([this, name, node = agent.node] {
      at_node_.erase(node);
      agents_.erase(name);
      return round_->vanish(node, "connection closed", now_);
    });
  }

  void kill(Agent& agent) {
    const NodeId node = agent.node;
    const bool connected = agent.connected;
    agents_.erase(name_of(agent));  // what was on the way is lost with it
    if (!connected) return;
    at_node_.erase(node);
    post(round_->vanish(node, "connection closed", now_));
  }

  void read(Agent& agent) {
    if (agent.inbox.empty() || agent.cut) return;
    const Letter letter = std::move(agent.inbox.front());
    agent.inbox.pop_front();
    if (agent.leaves) return;
    if (auto* ready = std::get_if<Ready>(&letter)) {
      start_workers(agent, ready->layout);
    } else if (auto* broken = std::get_if<Broken>(&letter)) {
      agent.request.restarts = std::max(agent.request.restarts, broken->restarts);
      if (agent.state == Agent::State::running) agent.state = Agent::State::stopping;
      if (agent.state == Agent::State::draining) join(agent);
    } else {
      agent.refused = std::holds_alternative<Refused>(letter);
      agent.told_end = true;
      agent.outbox.clear();
      agent.state = agent.works() ? Agent::State::stopping : Agent::State::done;
    }
  }

  void start_workers(Agent& agent, const Layout& layout) {
    REQUIRE(agent.state == Agent::State::joining);  // so no older worker of it runs
    if (!blind_) CHECK(layout.round > (agent.layout ? agent.layout->round : -1));
    if (!given_up(agent)) check_nobody_works_but_in(layout.round);
    agent.layout = layout;
    agent.state = Agent::State::running;
    agent.request.last_round = layout.round;
    agent.request.last_node_rank = layout.node_rank;
    agent.request.last_guests = layout.guests;
    agent.request.restarts = std::max(agent.request.restarts, layout.restarts);
    agent.request.aftermath = {};
  }

  // What happens around them.

  void wait(Round::Clock::duration duration) {
    now_ += duration;
    end_leases();
    if (round_->deadline() && *round_->deadline() <= now_) post(round_->tick(now_));
  }

  /// Kills what may not run any longer, and then tells the master who was silent for so long.
  void end_leases() {
    const auto silent = [this](const Agent& agent) {
      return agent.cut && now_ >= *agent.cut + spec_.lease;
    };
    for (const int name : names()) {
      Agent& agent = agents_.at(name);
      const bool doomed = agent.doomed && now_ >= *agent.doomed;
      if (agent.works() && (doomed || silent(agent))) end_workers(agent);
    }
    for (const int name : names()) {
      Agent& agent = agents_.at(name);
      if (!silent(agent)) continue;
      const NodeId node = agent.node;
      disconnect(agent);
      if (agent.leaves) agents_.erase(name);
      post(round_->vanish(node, "silent for 10 s (--lease)", now_));
    }
  }

  void restart_master() {
    round_.emplace(spec_);
    highest_ = -1;
    spent_ = 0;
    spends_.clear();
    pause_ends_ = Time::min();
    ended_.reset();
    end_.reset();
    bool takes_part = false;
    for (const int name : names()) {
      Agent& agent = agents_.at(name);
      takes_part |= agent.request.hosting;
      if (agent.connected) disconnect(agent);
      if (agent.request.hosting || (agent.leaves && !agent.works())) agents_.erase(name);
    }
    ++masters_;
    end_leases();
    if (takes_part && !chance(4)) new_agent(true);
  }

  void deliver(Agent& agent) {
    if (agent.outbox.empty() || agent.cut) return;
    const auto message = std::move(agent.outbox.front());
    agent.outbox.pop_front();
    post(message());
  }

  Letters joined(NodeId node, const JoinRequest& request) {
    Letters letters = round_->join(node, request, now_);
    for (const auto& [id, letter] : letters) {
      if (id == node && !std::holds_alternative<Ready>(letter)) return letters;  // not let in
    }
    agents_.at(at_node_.at(node)).told.reset();
    highest_ = std::max(highest_, request.last_round);
    for (; spent_ < request.restarts; ++spent_) spends_.push_back(now_);
    return letters;
  }

  Letters failed(NodeId node, int round, const Failure& failure) {
    Letters letters = round_->fail(node, round, failure, now_);
    if (letters.empty()) return letters;
    const auto& broken = std::get<Broken>(letters.front().second);
    REQUIRE(broken.root_cause.has_value());
    const bool too_soon = now_ - started_ < spec_.min_uptime;
    if (broken.ends_job) {
      CHECK((spec_.max_restarts == 0 || too_soon || used() >= spec_.max_restarts));
      ended_ = now_;
      return letters;
    }
    CHECK_FALSE(too_soon);
    ++spent_;
    spends_.push_back(now_);
    CHECK(used() <= spec_.max_restarts);
    Round::Clock::duration pause = spec_.restart_backoff;
    for (int i = 1; i < used(); ++i)
      pause = std::min<Round::Clock::duration>(2 * pause, minutes(5));
    pause_ends_ = now_ + pause;
    return letters;
  }

  /// Restarts that count against the budget now.
  int used() const {
    if (spec_.restart_window == spec_.restart_window.zero()) return spent_;
    return static_cast<int>(std::count_if(spends_.begin(), spends_.end(), [this](Time at) {
      return now_ - at < spec_.restart_window;
    }));
  }

  void post(const Letters& letters) {
    check_round_of(letters);
    for (const auto& [node, letter] : letters) {
      REQUIRE(at_node_.count(node) == 1);  // nobody writes to the lost
      Agent& agent = agents_.at(at_node_[node]);
      if (std::holds_alternative<Broken>(letter) && !agent.told) agent.told = now_;
      if (auto* closed = std::get_if<Closed>(&letter)) check_end(closed->ending);
      agent.inbox.push_back(letter);
    }
  }

  // What must hold.

  /// Round goes on without a node that needs so long to stop.
  bool given_up(const Agent& agent) const {
    return agent.told && now_ >= *agent.told + spec_.join_timeout;
  }

  void check_nobody_works_but_in(int round) {
    for (const auto& [name, agent] : agents_) {
      if (!agent.works() || agent.layout->round == round || given_up(agent)) continue;
      // No newcomer knows the rounds of an earlier master, and so neither does the one of today.
      blind_ |= masters_ > 1 && agent.layout->round > before_;
      if (!blind_) {
        INFO("round " << round << ", round " << agent.layout->round << " on " << name);
        CHECK_FALSE(agent.works());
      }
    }
  }

  /// The Ready letters of one answer are one round, whole.
  void check_round_of(const Letters& letters) {
    std::vector<std::pair<const Agent*, Layout>> members;
    for (const auto& [node, letter] : letters) {
      auto* ready = std::get_if<Ready>(&letter);
      if (ready != nullptr) members.emplace_back(&agents_.at(at_node_.at(node)), ready->layout);
    }
    CHECK(round_->restarts() == spent_);
    CHECK(round_->ending().has_value() == round_->closed());
    if (members.empty()) return;

    CHECK(now_ >= pause_ends_);
    CHECK_FALSE(ended_.has_value());
    CHECK(members.size() >= static_cast<size_t>(spec_.min_nodes));
    CHECK(members.size() <= static_cast<size_t>(spec_.max_nodes));
    std::set<const Agent*> once;
    int next_rank = 0, node_rank = 0;
    for (const auto& [agent, layout] : members) {
      CHECK(once.insert(agent).second);
      CHECK(layout.node_rank == node_rank++);
      CHECK(layout.first_rank == next_rank);
      CHECK(layout.local_size == agent->request.local_size);
      CHECK(layout.node_count == static_cast<int>(members.size()));
      CHECK(layout.world_size == members.back().second.world_size);
      CHECK(layout.round == highest_ + 1);
      CHECK(layout.restarts == spent_);
      CHECK(layout.guests == std::count_if(members.begin(), members.end(), [](const auto& member) {
              return !member.first->request.hosting;
            }));
      CHECK(layout.store_port == members.front().first->request.store_port);
      next_rank += layout.local_size;
    }
    CHECK(next_rank == members.back().second.world_size);
    for (const auto& [name, agent] : agents_) {
      blind_ |= masters_ > 1 && agent.layout && agent.layout->round > highest_;
    }
    before_ = highest_;
    check_nobody_works_but_in(++highest_);
    check_stable(members);
    started_ = now_;
    ++rounds_;
    if (masters_ > 1 && !blind_ && before_ >= 0) ++resumed_;
  }

  /// A survivor keeps its rank unless the round shrank below it, or a rendezvous host took rank 0;
  /// a given rank is kept always.
  void check_stable(const std::vector<std::pair<const Agent*, Layout>>& members) {
    if (blind_) return;
    int latest = -1;
    for (const auto& [agent, layout] : members)
      latest = std::max(latest, agent->request.last_round);
    for (const auto& [agent, layout] : members) {
      const bool survived = latest >= 0 && agent->request.last_round == latest;
      const int held = agent->request.node_rank.value_or(survived ? agent->request.last_node_rank
                                                                  : layout.node_count);
      if (held >= layout.node_count) continue;
      if (!ranks_given_ && (held == 0 || agent->request.is_host)) continue;
      CHECK(layout.node_rank == held);
    }
  }

  /// The same for everyone, and not before everyone can know all of it.
  void check_end(const Ending& ending) {
    const auto* failure = std::get_if<Failed>(&ending);
    const std::string text =
        failure == nullptr ? "" : failure->no_restart + "\n" + failure->aftermath;
    if (end_) CHECK(text == *end_);
    if (failure != nullptr && !end_) {
      CHECK(ended_.has_value());
      CHECK(!failure->no_restart.empty());
      CHECK(failure->aftermath.size() < 1'200);
      for (const auto& [name, agent] : agents_) {
        if (agent.works() && agent.told && !given_up(agent)) CHECK_FALSE(agent.works());
      }
    }
    end_ = text;
  }

  std::mt19937 random_;
  RoundSpec spec_;
  bool ranks_given_ = false;
  bool master_takes_part_ = false;
  Time now_{};
  std::map<int, Agent> agents_;  ///< by name, which is also their host's
  std::map<NodeId, int> at_node_;
  int next_name_ = 1;
  NodeId last_node_ = 0;

  // The master of today.
  std::optional<Round> round_;
  int highest_ = -1;          ///< round that it started or was told of
  int before_ = -1;           ///< the same before its latest round
  int spent_ = 0;             ///< restarts that it spent or was told of
  std::vector<Time> spends_;  ///< when
  Time pause_ends_ = Time::min();
  Time started_{};
  std::optional<Time> ended_;       ///< when it told a round to stop for good
  std::optional<std::string> end_;  ///< what it told about that

  int masters_ = 1;
  bool blind_ = false;  ///< a master could not know of an earlier one's round, and went on
  int rounds_ = 0;
  int resumed_ = 0;  ///< after an earlier master's
};

TEST_CASE("whatever nodes do, rounds are whole, one at a time, and everyone is answered") {
  constexpr int kHistories = 10'000;
  int rounds = 0, resumed = 0;
  for (int seed = 1; seed <= kHistories; ++seed) {
    INFO("seed " << seed);
    Walk walk(static_cast<unsigned>(seed));
    walk.run(500);
    rounds += walk.rounds();
    resumed += walk.resumed();
  }
  // Else the histories are too tame to mean much.
  CHECK(rounds > 15'000);
  CHECK(resumed > 1'000);
}

TEST_CASE("a job of many nodes forms, breaks and ends in a time that grows with their number") {
  RoundSpec spec;
  spec.min_nodes = spec.max_nodes = 10'000;
  spec.max_restarts = 1;
  Round round(spec);
  JoinRequest request;
  request.local_size = 8;
  Letters letters;
  const auto all_join = [&] {
    for (int i = 0; i < spec.max_nodes; ++i) {
      request.node_rank = spec.max_nodes - 1 - i;
      letters = round.join(static_cast<NodeId>(i), request, {});
      CHECK((letters.empty() || i == spec.max_nodes - 1));
    }
  };
  all_join();
  CHECK(letters.size() == 10'000);
  CHECK(std::get<Ready>(letters.back().second).layout.first_rank == 79'992);
  CHECK(round.fail(7, 0, Failure{}, {}).size() == 10'000);
  all_join();
  CHECK(round.fail(7, 1, Failure{}, {}).size() == 10'000);
  CHECK(round.waiting_for().size() < 200);
  request.aftermath.victims = {{1, "exit 1"}};
  all_join();
  CHECK(letters.size() == 10'000);
  CHECK(std::holds_alternative<Closed>(letters.back().second));
}

}  // namespace
}  // namespace ddprun::rendezvous
