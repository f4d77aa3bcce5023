// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round.h"

#include <algorithm>

#include "base/text.h"
#include "rendezvous/membership_text.h"
#include "rendezvous/node_ranks.h"

namespace ddprun::rendezvous {
namespace {

template <class T, class Event>
const T* as(const Event& event) {
  return std::get_if<T>(&event);
}

std::string failed_on(const Failure& failure) {
  return "rank " + std::to_string(failure.rank) + " failed on " + failure.host;
}

}  // namespace

Notifications Round::join(NodeId node, JoinRequest request, Time now) {
  // A node that left and joins again counts as new.
  const auto known = nodes_.find(node);
  if (known != nodes_.end() && known->second.state == NodeState::leaving) forget(node);
  return on(Join{node, std::move(request)}, now);
}

Notifications Round::fail(NodeId node, int round, Failure failure, Time now) {
  return on(Fail{node, round, std::move(failure)}, now);
}

Notifications Round::succeed(NodeId node, int round, Time now) {
  return on(Succeed{node, round}, now);
}

Notifications Round::leave(NodeId node, Time now) {
  return on(Gone{node, " left", true}, now);
}

Notifications Round::vanish(NodeId node, const std::string& reason, Time now) {
  return on(Gone{node, " is gone: " + reason, false}, now);
}

Notifications Round::tick(Time now) {
  return on(Tick{}, now);
}

std::optional<Round::Time> Round::deadline() const {
  if (phase_ == Phase::ending) return since_ + spec_.join_timeout;
  if (phase_ != Phase::forming || no_participants()) return std::nullopt;
  const Time next = starts_at().value_or(since_ + spec_.join_timeout);
  // go_on may have to look again when the lease is over.
  const bool looks_again = prior_round_ends() > now_ || prior_round_.failure();
  return looks_again ? std::min(next, prior_round_ends()) : next;
}

Notifications Round::on(const Event& event, Time now) {
  now_ = now;
  if (!began_) began_ = now;
  switch (phase_) {
    case Phase::forming:
      return while_forming(event);
    case Phase::active:
      return while_active(event);
    case Phase::ending:
      return while_ending(event);
    case Phase::closed:
      return while_closed(event);
  }
  return {};
}

Notifications Round::while_forming(const Event& event) {
  if (auto* e = as<Join>(event)) {
    if (auto sentence = refusal(*e)) return {{e->node, Refused{*sentence}}};
    if (no_participants()) since_ = now_;
    admit(*e);
    return go_on();
  }
  if (auto* e = as<Gone>(event)) {
    depart(*e);
    return start_if_complete();
  }
  if (as<Tick>(event)) return tick_forming();
  return {};  // Fail, Succeed: of a round that is already broken
}

Notifications Round::while_active(const Event& event) {
  if (auto* e = as<Join>(event)) return join_active(*e);
  if (auto* e = as<Fail>(event)) return fail_active(*e);
  if (auto* e = as<Succeed>(event)) return succeed_active(*e);
  if (auto* e = as<Gone>(event)) return gone_active(*e);
  return {};
}

Notifications Round::while_ending(const Event& event) {
  if (auto* e = as<Join>(event)) {
    if (auto sentence = refusal(*e)) return {{e->node, Refused{*sentence}}};
    const auto known = nodes_.find(e->node);
    if (known != nodes_.end() && known->second.state == NodeState::returning &&
        known->second.last_round == failed_.round) {
      failure_summary_.add(e->request.worker_exits);
    }
    admit(*e);
    return close_if_all_back();
  }
  if (auto* e = as<Gone>(event)) {
    depart(*e);
    return close_if_all_back();
  }
  if (as<Tick>(event)) return close_if_all_back();
  // Fail: a victim. Its node reports it in words, with its WorkerExits, when it joins again.
  return {};
}

Notifications Round::while_closed(const Event& event) const {
  if (auto* e = as<Join>(event)) return {{e->node, Closed{*ending_}}};
  return {};
}

Notifications Round::tick_forming() {
  Notifications notifications = go_on();
  if (phase_ != Phase::forming || enough_since_ || no_participants()) return notifications;
  if (now_ < since_ + spec_.join_timeout) return notifications;
  return close(TimedOut{"timed out after " + duration_text(now_ - since_) +
                        " (--join_timeout) waiting for " + missing_text()});
}

Notifications Round::join_active(const Join& event) {
  if (auto sentence = refusal(event)) return {{event.node, Refused{*sentence}}};
  const auto known = nodes_.find(event.node);
  const auto was = known == nodes_.end() ? NodeState::waiting : known->second.state;
  admit(event);

  const std::string name = node_name(nodes_.at(event.node));
  if (was == NodeState::running || was == NodeState::finished) {
    return regroup({name + " rejoined without its workers", {}, restarts()});
  }
  const int members = count(NodeState::running) + count(NodeState::finished);
  // Finished work is not thrown away to make room for a new node.
  if (members >= spec_.max_nodes || count(NodeState::finished) > 0) {
    prior_round_.forget_failure();
    return {};
  }
  return regroup({name + " joined", {}, restarts()});
}

Notifications Round::fail_active(const Fail& event) {
  if (!runs(event.node, event.round)) return {};
  Broken news{failed_on(event.failure), event.failure, restarts()};
  std::string no_restart = budget_.refusal(round_, now_ - started_, now_);
  if (!no_restart.empty()) {
    return end({event.failure, round_, "", std::move(no_restart)}, news.reason);
  }
  budget_.spend(now_);
  news.restarts = restarts();
  return regroup(news);
}

Notifications Round::succeed_active(const Succeed& event) {
  if (!runs(event.node, event.round)) return {};
  set_state(nodes_.at(event.node), NodeState::finished);
  return count(NodeState::running) > 0 ? Notifications{} : close(Succeeded{});
}

Notifications Round::gone_active(const Gone& event) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) return {};
  const bool was_running = found->second.state == NodeState::running;
  const std::string reason = node_name(found->second) + event.how;
  depart(event);
  // The others do not need a node that has finished.
  return was_running ? regroup({reason, {}, restarts()}) : Notifications{};
}

std::optional<std::string> Round::refusal(const Join& event) const {
  if (nodes_.contains(event.node)) return std::nullopt;
  if (!event.request.node_rank) {
    if (rank_holders_.empty()) return std::nullopt;
    return "--node_rank is given on " + nodes_.at(rank_holders_.begin()->second).request.host +
           " but not here: give it on every node or on none";
  }
  const int rank = *event.request.node_rank;
  if (rank < 0 || rank >= spec_.max_nodes) return out_of_range(rank, spec_);
  if (rank_holders_.empty() && !no_participants()) {
    const auto stays = std::find_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
      return node.second.state != NodeState::leaving;
    });
    return "--node_rank is given here but not on " + stays->second.request.host +
           ": give it on every node or on none";
  }
  if (const auto holder = rank_holders_.find(rank); holder != rank_holders_.end()) {
    return "node_rank " + std::to_string(rank) + " is already taken by " +
           nodes_.at(holder->second).request.host;
  }
  return std::nullopt;
}

void Round::admit(const Join& event) {
  prior_round_.learn(event.request, last_round_);
  last_round_ = std::max(last_round_, event.request.last_round);
  budget_.learn(event.request.restarts, now_);

  if (const auto known = nodes_.find(event.node); known != nodes_.end()) {
    Node& node = known->second;
    const auto node_rank = node.request.node_rank;
    node.request = event.request;
    node.request.node_rank = node_rank;
    node.request.worker_exits = {};
    set_state(node, NodeState::waiting);
    return;
  }
  Node& node = nodes_[event.node];
  node.id = event.node;
  node.request = event.request;
  node.request.worker_exits = {};
  node.order = joins_++;
  ++count_[static_cast<size_t>(NodeState::waiting)];
  if (event.request.node_rank) rank_holders_.emplace(*event.request.node_rank, event.node);
}

void Round::set_state(Node& node, NodeState next) {
  if (node.last_round >= 0 && node.state == NodeState::waiting) --past_members_waiting_;
  if (node.last_round >= 0 && next == NodeState::waiting) ++past_members_waiting_;
  --count_[static_cast<size_t>(node.state)];
  ++count_[static_cast<size_t>(next)];
  node.state = next;
}

/// Removes a node, or makes it leaving while its workers may run.
void Round::depart(const Gone& event) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  const bool has_none = node.state == NodeState::waiting || node.state == NodeState::finished;
  if (!event.workers_may_run || has_none) return forget(event.node);
  release_node_rank(node);
  set_state(node, NodeState::leaving);
}

/// A replacement may take the node rank of a node that still stops its workers.
void Round::release_node_rank(const Node& node) {
  if (!node.request.node_rank) return;
  const auto holder = rank_holders_.find(*node.request.node_rank);
  if (holder != rank_holders_.end() && holder->second == node.id) rank_holders_.erase(holder);
}

void Round::forget(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  const Node& node = found->second;
  if (node.last_round >= 0 && node.state == NodeState::waiting) --past_members_waiting_;
  --count_[static_cast<size_t>(node.state)];
  release_node_rank(node);
  nodes_.erase(found);
}

bool Round::runs(NodeId id, int round) const {
  const auto node = nodes_.find(id);
  return round == round_ && node != nodes_.end() && node->second.state == NodeState::running;
}

/// Until when workers of an earlier master's round may run; in the past: none were reported.
Round::Time Round::prior_round_ends() const {
  return prior_round_.missing() > 0 ? *began_ + eviction_timeout_ : Time::min();
}

/// As far as nodes have reported: nodes that join from now on are new.
bool Round::all_past_members_back() const {
  return stopping() == 0 && (past_members_waiting_ > 0 || prior_round_.all_back());
}

/// When the next round starts if no event comes before; nullopt: too few nodes are waiting.
std::optional<Round::Time> Round::starts_at() const {
  if (!enough_since_) return std::nullopt;
  const Time allowed = std::max(budget_.pause_ends(), prior_round_ends());
  // A round without them would be broken again when they join: with workers that are slow to stop,
  // two halves of a job could take turns for ever.
  if (stopping() > 0) return std::max(allowed, since_ + spec_.join_timeout);
  if (count(NodeState::waiting) >= spec_.max_nodes || all_past_members_back()) {
    return std::max(allowed, *enough_since_);
  }
  return std::max(allowed, *enough_since_ + spec_.last_call);
}

/// A failure that no master has acted on costs a restart, or ends the job, once: when all nodes are
/// back that could tell of a later round or of another count.
Notifications Round::count_prior_failure() {
  if (!prior_round_.failure() || now_ < prior_round_ends()) return {};
  const Failure failure = *prior_round_.failure();
  prior_round_.forget_failure();
  if (prior_round_.restarts() < restarts()) return {};  // an earlier master has counted it
  const auto uptime =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(failure.seconds));
  std::string no_restart = budget_.refusal(prior_round_.round(), uptime, now_);
  if (no_restart.empty()) return budget_.spend(now_), Notifications();
  Notifications notifications =
      end({failure, prior_round_.round(), "", std::move(no_restart)}, failed_on(failure));
  failure_summary_ = prior_round_.exits();
  for (auto& notification : close_if_all_back()) notifications.push_back(std::move(notification));
  return notifications;
}

/// After a change of what prior_round_ knows, or of time.
Notifications Round::go_on() {
  Notifications notifications = count_prior_failure();
  return phase_ == Phase::forming ? start_if_complete() : notifications;
}

Notifications Round::start_if_complete() {
  if (count(NodeState::waiting) < spec_.min_nodes) {
    enough_since_.reset();
  } else if (!enough_since_) {
    enough_since_ = now_;
  }
  const auto at = starts_at();
  return at && now_ >= *at && !prior_round_.failure() ? start() : Notifications{};
}

Notifications Round::start() {
  phase_ = Phase::active;
  round_ = ++last_round_;
  started_ = now_;
  enough_since_.reset();
  prior_round_ = {};

  const std::vector<Node*> members = assign_node_ranks(nodes_, spec_.max_nodes);
  Layout layout;
  layout.world_size = 0;
  layout.round = round_;
  layout.restarts = restarts();
  layout.node_count = static_cast<int>(members.size());
  layout.store_port = members.front()->request.store_port;
  for (const Node* node : members) {
    layout.world_size += node->request.local_size;
    layout.guests += node->request.hosting ? 0 : 1;
  }

  Notifications notifications;
  notifications.reserve(members.size());
  for (Node* node : members) {
    layout.local_size = node->request.local_size;
    set_state(*node, NodeState::running);
    node->last_round = round_;
    node->node_rank = layout.node_rank;
    notifications.emplace_back(node->id, Ready{layout});
    ++layout.node_rank;
    layout.first_rank += layout.local_size;
  }
  return notifications;
}

/// Makes all members stop their workers and join again.
Notifications Round::break_round(const Broken& news) {
  since_ = now_;
  Notifications notifications;
  for (auto& [id, node] : nodes_) {
    if (node.state != NodeState::running && node.state != NodeState::finished) continue;
    set_state(node, NodeState::returning);
    notifications.emplace_back(id, news);
  }
  return notifications;
}

Notifications Round::regroup(const Broken& news) {
  phase_ = Phase::forming;
  Notifications notifications = break_round(news);
  // A spare may fill the round at once.
  for (auto& notification : go_on()) notifications.push_back(std::move(notification));
  return notifications;
}

/// The answer to the members comes when all are back.
Notifications Round::end(Failed failed, const std::string& reason) {
  phase_ = Phase::ending;
  failed_ = std::move(failed);
  return break_round({reason, failed_.root_cause, restarts(), true});
}

Notifications Round::close_if_all_back() {
  if (stopping() > 0 && now_ < since_ + spec_.join_timeout) return {};
  failed_.summary = failure_summary_.text(failed_.root_cause.rank);
  return close(failed_);
}

Notifications Round::close(Ending ending) {
  phase_ = Phase::closed;
  Notifications notifications;
  for (const auto& [id, node] : nodes_) {
    if (node.state != NodeState::leaving) notifications.emplace_back(id, Closed{ending});
  }
  ending_ = std::move(ending);
  return notifications;
}

std::string Round::waiting_for() const {
  const bool may_give_up = phase_ == Phase::forming && !enough_since_ && !no_participants();
  return missing_text() + (may_give_up ? "; giving up after " + duration_text(spec_.join_timeout) +
                                             " (--join_timeout)"
                                       : "");
}

std::string Round::missing_text() const {
  switch (phase_) {
    case Phase::forming:
      if (!enough_since_ || stopping() > 0) break;
      if (now_ < prior_round_ends()) return prior_round_text(prior_round_, eviction_timeout_);
      if (now_ < budget_.pause_ends()) {
        return "the end of a pause of " + duration_text(budget_.pause()) +
               " after the failure (--restart_backoff)";
      }
      break;
    case Phase::active:
      if (count(NodeState::finished) > 0) return "the end of a job that has begun to finish";
      return "a place: all " + nnodes_text(spec_) + " nodes of this job are running";
    case Phase::ending:
      return "the end of a job that failed" + stopping_text(nodes_);
    case Phase::closed:
      return "";
  }
  return membership_text(nodes_, spec_);
}

}  // namespace ddprun::rendezvous
