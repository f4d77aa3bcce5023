// SPDX-License-Identifier: Apache-2.0
// The events of a history: actions of agents, and events around them.
#include "tests/rendezvous/round/walk.h"

#include <algorithm>
#include <variant>

#include "tests/catch.h"

namespace ddprun::rendezvous {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Walk::Walk(unsigned seed) : random_(seed) {
  spec_.min_nodes = number(1, 4);
  spec_.max_nodes = spec_.min_nodes + number(0, 3);
  spec_.max_restarts = number(0, 8);
  spec_.join_timeout = seconds(number(10, 100));
  spec_.last_call = seconds(number(0, 20));
  if (chance(2)) spec_.restart_window = seconds(number(1, 200));
  if (chance(2)) spec_.restart_backoff = milliseconds(number(1, 20'000));
  if (chance(4)) spec_.min_uptime = seconds(number(1, 20));
  if (chance(2)) eviction_timeout_ = seconds(number(1, 20));
  ranks_given_ = chance(4);
  master_takes_part_ = chance(2);
  round_.emplace(spec_, eviction_timeout_, std::to_string(master_));
  if (master_takes_part_) new_agent(true);
}

void Walk::run(int steps) {
  for (int i = 0; i < steps; ++i) step();
  settle();
}

void Walk::step() {
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

void Walk::misfortune() {
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
        } else if (agent.connected && eviction_timeout_ > eviction_timeout_.zero()) {
          agent.cut = now_;
        }
      });
  }
}

void Walk::settle() {
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
      REQUIRE(round_->deadline().has_value());  // else they would never end
      CHECK(*round_->deadline() > now_);
      CHECK(!round_->waiting_for().empty());
      wait(*round_->deadline() - now_);
    }
  }
  REQUIRE(all_done());
  CHECK((everyone_was_refused() || round_->closed()));
}

bool Walk::everyone_was_refused() const {
  return std::all_of(agents_.begin(), agents_.end(), [](const auto& agent) {
    return agent.second.refused || !agent.second.connected;
  });
}

bool Walk::all_done() const {
  return std::all_of(agents_.begin(), agents_.end(), [](const auto& agent) {
    return agent.second.state == Agent::State::done && !agent.second.leaves;
  });
}

std::vector<int> Walk::names() const {
  std::vector<int> all;
  for (const auto& [name, agent] : agents_) all.push_back(name);
  return all;
}

void Walk::new_agent(bool hosting) {
  const int name = new_name();
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

/// The name of a new process, now and then that of a host that was lost.
int Walk::new_name() {
  for (const int name : lost_names_) {
    if (!agents_.contains(name) && chance(2)) return name;
  }
  return next_name_++;
}

void Walk::contact(Agent& agent) {
  if (agent.connected || agent.leaves || agent.told_end) return;
  agent.connected = true;
  agent.node = ++last_node_;
  at_node_[agent.node] = name_of(agent);
  if (agent.state == Agent::State::running) agent.state = Agent::State::stopping;
  if (agent.state != Agent::State::stopping) join(agent);
}

void Walk::disconnect(Agent& agent) {
  agent.connected = false;
  agent.cut.reset();
  agent.inbox.clear();
  agent.outbox.clear();
  agent.returned.reset();
  at_node_.erase(agent.node);
  if (agent.works()) agent.doomed = now_ + eviction_timeout_;
}

void Walk::join(Agent& agent) {
  agent.state = Agent::State::joining;
  if (!agent.connected) return;
  agent.outbox.push_back(
      [this, node = agent.node, request = agent.request] { return joined(node, request); });
}

void Walk::worker_event(Agent& agent) {
  if (agent.state != Agent::State::running) return;
  if (chance(4)) return succeed(agent);
  agent.state = Agent::State::stopping;
  Failure failure;
  failure.rank = agent.layout->first_rank;
  failure.host = agent.request.host;
  failure.seconds = std::chrono::duration<double>(now_ - started_).count();
  agent.request.unreported_failure = failure;
  if (!agent.connected) return;
  agent.outbox.push_back([this, node = agent.node, failure, round = agent.layout->round] {
    return failed(node, round, failure);
  });
}

void Walk::succeed(Agent& agent) {
  agent.state = Agent::State::draining;
  agent.doomed.reset();
  if (!agent.connected) return;
  agent.outbox.push_back([this, node = agent.node, round = agent.layout->round] {
    return round_->succeed(node, round, now_);
  });
}

void Walk::end_stopped(Agent& agent) {
  if (agent.state == Agent::State::stopping) end_workers(agent);
}

void Walk::end_workers(Agent& agent) {
  agent.doomed.reset();
  if (agent.leaves) return vanish(agent);
  if (agent.told_end) {
    agent.state = Agent::State::done;
    return;
  }
  agent.request.worker_exits = {};
  agent.request.worker_exits.stopped = {agent.layout->first_rank};
  agent.request.worker_exits.signal = "SIGTERM";
  if (chance(2)) {
    agent.request.worker_exits.failed = {
        {number(0, 1'000), "exit " + std::to_string(number(1, 9))}};
  }
  join(agent);
}

void Walk::leave(Agent& agent) {
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

void Walk::vanish(Agent& agent) {
  agent.state = Agent::State::done;
  const int name = name_of(agent);
  if (!agent.connected) {
    agents_.erase(name);
    return;
  }
  agent.outbox.push_back([this, name, node = agent.node] {
    Notifications notifications = lost(agents_.at(name), "connection closed");
    at_node_.erase(node);
    agents_.erase(name);
    return notifications;
  });
}

void Walk::kill(Agent& agent) {
  const NodeId node = agent.node;
  Notifications notifications;
  if (agent.connected) notifications = lost(agent, "connection closed");
  agents_.erase(name_of(agent));  // its messages on their way are lost, too
  at_node_.erase(node);
  post(notifications);
}

void Walk::read(Agent& agent) {
  if (agent.inbox.empty() || agent.cut) return;
  const Notification notification = std::move(agent.inbox.front());
  agent.inbox.pop_front();
  if (agent.leaves) return;
  if (auto* ready = std::get_if<Ready>(&notification)) {
    start_workers(agent, ready->layout);
  } else if (auto* broken = std::get_if<Broken>(&notification)) {
    agent.request.restarts = std::max(agent.request.restarts, broken->restarts);
    agent.request.unreported_failure = broken->ends_job ? broken->root_cause : std::nullopt;
    if (agent.state == Agent::State::running) agent.state = Agent::State::stopping;
    if (agent.state == Agent::State::draining) join(agent);
  } else {
    agent.refused = std::holds_alternative<Refused>(notification);
    agent.told_end = true;
    agent.outbox.clear();
    agent.state = agent.works() ? Agent::State::stopping : Agent::State::done;
  }
}

void Walk::start_workers(Agent& agent, const Layout& layout) {
  REQUIRE(agent.state == Agent::State::joining);  // so no older worker of it runs
  if (!blind_) CHECK(layout.round > (agent.layout ? agent.layout->round : -1));
  if (!given_up(agent)) check_nobody_works_but_in(layout.round);
  agent.layout = layout;
  agent.state = Agent::State::running;
  agent.request.last_round = layout.round;
  agent.request.last_master = std::to_string(master_);
  agent.request.last_node_rank = layout.node_rank;
  agent.request.last_guests = layout.guests;
  agent.request.last_restarts = layout.restarts;
  agent.request.unreported_failure.reset();
  agent.request.restarts = std::max(agent.request.restarts, layout.restarts);
  agent.request.worker_exits = {};
}

void Walk::wait(Round::Clock::duration duration) {
  now_ += duration;
  end_leases();
  if (round_->deadline() && *round_->deadline() <= now_) post(round_->tick(now_));
}

void Walk::end_leases() {
  const auto silent = [this](const Agent& agent) {
    return agent.cut && now_ >= *agent.cut + eviction_timeout_;
  };
  for (const int name : names()) {
    Agent& agent = agents_.at(name);
    const bool doomed = agent.doomed && now_ >= *agent.doomed;
    if (agent.works() && (doomed || silent(agent))) end_workers(agent);
  }
  for (const int name : names()) {
    Agent& agent = agents_.at(name);
    if (!silent(agent)) continue;
    const Notifications notifications = lost(agent, "silent for 10 s (--lease)");
    disconnect(agent);
    if (agent.leaves) agents_.erase(name);
    post(notifications);
  }
}

void Walk::restart_master() {
  round_.emplace(spec_, eviction_timeout_, std::to_string(++master_));
  highest_ = -1;
  spent_ = 0;
  spends_.clear();
  pause_ends_ = Time::min();
  ended_.reset();
  end_.reset();
  own_ = -1;
  prior_failures_.clear();
  lost_names_.clear();
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

void Walk::deliver(Agent& agent) {
  if (agent.outbox.empty() || agent.cut) return;
  const auto message = std::move(agent.outbox.front());
  agent.outbox.pop_front();
  post(message());
}

Notifications Walk::joined(NodeId node, const JoinRequest& request) {
  const bool was_over = round_->closed();
  Notifications notifications = round_->join(node, request, now_);
  const auto answer = std::find_if(notifications.begin(), notifications.end(),
                                   [node](const auto& each) { return each.first == node; });
  const bool answered = answer != notifications.end();
  if (was_over || (answered && std::holds_alternative<Refused>(answer->second))) {
    return notifications;  // not let in
  }
  if (!answered || std::holds_alternative<Ready>(answer->second)) {
    agents_.at(at_node_.at(node)).told.reset();
  }
  Agent& joiner = agents_.at(at_node_.at(node));
  if (!joiner.returned && lost_names_.contains(name_of(joiner))) joiner.returned = now_;
  // If no place is free for the node, its failure does not matter any more.
  const bool no_place = notifications.empty() && round_->phase() == Round::Phase::active;
  if (request.unreported_failure && request.last_round > own_ && request.last_round >= highest_ &&
      !no_place) {
    prior_failures_.emplace(request.last_round,
                            std::pair(request.last_restarts, request.unreported_failure->seconds));
  }
  highest_ = std::max(highest_, request.last_round);
  for (; spent_ < request.restarts; ++spent_) spends_.push_back(now_);
  return notifications;
}

Notifications Walk::failed(NodeId node, int round, const Failure& failure) {
  Notifications notifications = round_->fail(node, round, failure, now_);
  if (notifications.empty()) return notifications;
  REQUIRE(std::get<Broken>(notifications.front().second).root_cause.has_value());
  if (std::get<Broken>(notifications.front().second).ends_job) {
    end_by_failure();
  } else {
    spend();
  }
  return notifications;
}

Notifications Walk::lost(Agent& agent, const std::string& reason) {
  const auto known = round_->nodes().find(agent.node);
  const bool is_known = known != round_->nodes().end();
  const bool was_active = round_->phase() == Round::Phase::active;
  const bool runs = was_active && is_known && known->second.state == NodeState::running;
  const bool again = agent.returned && now_ - *agent.returned <= minutes(10);
  if (is_known && known->second.state != NodeState::leaving) lost_names_.insert(name_of(agent));

  const int before = round_->restarts();
  Notifications notifications = round_->vanish(agent.node, reason, now_);
  const bool restarts = round_->restarts() > before;
  const bool ends = was_active && round_->phase() == Round::Phase::ending;
  CHECK((restarts || ends) == (runs && again));
  if (restarts) spend();
  if (ends) end_by_failure();
  paid_losses_ += restarts ? 1 : 0;
  return notifications;
}

void Walk::end_by_failure() {
  const bool too_soon = now_ - started_ < spec_.min_uptime;
  CHECK((spec_.max_restarts == 0 || too_soon || used() >= spec_.max_restarts));
  ended_ = now_;
}

void Walk::spend() {
  ++spent_;
  spends_.push_back(now_);
  CHECK(used() <= spec_.max_restarts);
  Round::Clock::duration pause = spec_.restart_backoff;
  for (int i = 1; i < used(); ++i) pause = std::min<Round::Clock::duration>(2 * pause, minutes(5));
  pause_ends_ = now_ + pause;
}

void Walk::count_prior_failure() {
  const auto prior = prior_failures_.find(highest_);
  if (prior == prior_failures_.end() || prior->second.first < spent_) return;
  const bool too_soon = std::chrono::duration<double>(prior->second.second) < spec_.min_uptime;
  if (round_->restarts() == spent_ + 1) {
    CHECK_FALSE(too_soon);
    spend();
    ++prior_failures_counted_;
  } else if (round_->phase() == Round::Phase::ending || round_->closed()) {
    const bool failed = !round_->closed() || std::holds_alternative<Failed>(*round_->ending());
    if (ended_ || !failed) return;
    CHECK((spec_.max_restarts == 0 || too_soon || used() >= spec_.max_restarts));
    ended_ = now_;
  }
}

int Walk::used() const {
  if (spec_.restart_window == spec_.restart_window.zero()) return spent_;
  return static_cast<int>(std::count_if(spends_.begin(), spends_.end(), [this](Time at) {
    return now_ - at < spec_.restart_window;
  }));
}

void Walk::post(const Notifications& notifications) {
  count_prior_failure();
  check_round_of(notifications);
  for (const auto& [node, notification] : notifications) {
    REQUIRE(at_node_.count(node) == 1);  // no message goes to a lost node
    Agent& agent = agents_.at(at_node_[node]);
    if (std::holds_alternative<Broken>(notification) && !agent.told) agent.told = now_;
    if (auto* closed = std::get_if<Closed>(&notification)) check_end(closed->ending);
    agent.inbox.push_back(notification);
  }
}

}  // namespace ddprun::rendezvous
