// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/round.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "rendezvous/blame/named_ranks.h"
#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

template <class T, class Event>
const T* as(const Event& event) {
  return std::get_if<T>(&event);
}

void append(Notifications& notifications, Notifications more) {
  std::move(more.begin(), more.end(), std::back_inserter(notifications));
}

/// The loss of a node as the failure of its first worker, which was killed with it.
Failure loss_of(const Node& node, const std::string& how, Round::Clock::duration ran) {
  Failure failure;
  failure.rank = node.first_rank;
  failure.wait_status = SIGKILL;
  failure.seconds = std::chrono::duration<double>(ran).count();
  failure.host = node.request.host;
  failure.cause = node_name(node) + how;
  return failure;
}

std::string failed_on(const Failure& failure) {
  return "rank " + std::to_string(failure.rank) + " failed on " + name_text(failure.host);
}

/// Tells a new node how the job ended before this master began.
std::string ending_text(const Ending& ending) {
  if (const auto* timed_out = std::get_if<TimedOut>(&ending)) return timed_out->sentence;
  return std::holds_alternative<Succeeded>(ending) ? "it succeeded" : "it failed";
}

}  // namespace

Round::Round(RoundSpec spec, Clock::duration eviction_timeout, std::string master,
             std::optional<JobState> inherited)
    : spec_(spec),
      eviction_timeout_(eviction_timeout),
      master_(std::move(master)),
      inherited_(std::move(inherited)),
      budget_(spec) {
  if (!inherited_) return;
  last_round_ = inherited_->round;
  ending_ = inherited_->ending;
  if (!ending_) return;
  phase_ = Phase::closed;
  members_ = ending_text(*ending_);
}

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

Notifications Round::leave(NodeId node, Time now, const std::string& signal) {
  losses_.left(node);
  const std::string how = signal.empty() ? " left" : " left: its ddprun got " + signal;
  return on(Gone{node, how, true, ""}, now);
}

Notifications Round::vanish(NodeId node, const std::string& reason, Time now,
                            const std::string& own_fault) {
  const int losses = losses_.lost(node, now);
  Gone gone{node, " is gone: " + reason, false, ""};
  if (losses > 1) gone.failure = " was lost for the " + repeated_loss_text(losses) + ": " + reason;
  if (!own_fault.empty()) gone.failure = " was lost: " + own_fault;
  return on(gone, now);
}

/// Its old workers are gone after a lease. One such node is enough to delay the round, so it does
/// no harm to drop some of thousands, which may be a stranger's.
void Round::had_another_master(NodeId node, Time now) {
  constexpr size_t kMostUnreported = 65'536;
  had_another_master_ = true;
  const bool may_have_workers = !began_ || now < *began_ + eviction_timeout_;
  if (may_have_workers && unreported_.size() < kMostUnreported) unreported_.insert(node);
}

Notifications Round::tick(Time now) {
  return on(Tick{}, now);
}

std::optional<Round::Time> Round::deadline() const {
  if (phase_ == Phase::ending) return since_ + spec_.join_timeout;
  if (phase_ == Phase::closed || no_participants()) return std::nullopt;
  std::optional<Time> next;
  const auto look_at = [&next](Time at) { next = std::min(next.value_or(at), at); };
  for (const auto& [id, until] : held_until_) look_at(until);
  if (phase_ == Phase::active) return next;
  if (const auto start = starts_at()) {
    look_at(*start);
  } else if (held_until_.empty()) {
    look_at(since_ + spec_.join_timeout);
  }
  // go_on() may have to act when the lease is over.
  if (prior_round_ends() > now_ || prior_rounds_.latest().failure()) look_at(prior_round_ends());
  return next;
}

Notifications Round::on(const Event& event, Time now) {
  now_ = now;
  if (!began_) {
    began_ = now;
    if (inherited_) budget_.learn(inherited_->restarts, now);
  }
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
    if (auto sentence = refusal_of(*e)) return {{e->node, Refused{*sentence}}};
    if (no_participants()) since_ = now_;
    add_exits(*e);
    admit(*e);
    return go_on();
  }
  if (auto* e = as<Gone>(event)) {
    forget_suspect(*e);
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
  return tick_active();
}

Notifications Round::while_ending(const Event& event) {
  if (auto* e = as<Join>(event)) {
    if (auto sentence = refusal_of(*e)) return {{e->node, Refused{*sentence}}};
    add_exits(*e);
    admit(*e);
    return close_if_all_back();
  }
  if (auto* e = as<Gone>(event)) {
    forget_suspect(*e);
    depart(*e);
    return close_if_all_back();
  }
  if (as<Tick>(event)) return close_if_all_back();
  // Fail: a consequence. The node reports it in words, with its WorkerExits, when it joins again.
  return {};
}

/// A member of the round that was broken reports how its workers ended.
void Round::add_exits(const Join& event) {
  const auto known = nodes_.find(event.node);
  if (known == nodes_.end() || known->second.state != NodeState::returning) return;
  const Node& node = known->second;
  if (node.last_round != round_) return;
  const WorkerExits& exits = event.request.worker_exits;
  if (phase_ == Phase::ending && failed_.round == round_) failure_summary_.add(exits);
  if (is_suspect_sought_)
    suspect_.add(exits, node.request.host, node.first_rank, node.request.local_size);
}

Notifications Round::while_closed(const Event& event) const {
  const auto* e = as<Join>(event);
  if (e == nullptr) return {};
  const auto known = nodes_.find(e->node);
  const bool was_member = known != nodes_.end() && known->second.last_round >= 0;
  if (!was_member && is_left_out(e->request)) return {{e->node, Refused{members_, true}}};
  return {{e->node, Closed{*ending_}}};
}

Notifications Round::tick_active() {
  Notifications notifications;
  for (const NodeId id : release_held()) {
    if (phase_ == Phase::active) append(notifications, take_in(nodes_.at(id)));
  }
  return notifications;
}

Notifications Round::tick_forming() {
  release_held();
  Notifications notifications = go_on();
  const bool goes_on = enough_since_ || !held_until_.empty() || no_participants();
  if (phase_ != Phase::forming || goes_on) return notifications;
  if (now_ < since_ + spec_.join_timeout) return notifications;
  return close(TimedOut{"timed out after " + duration_text(now_ - since_) +
                        " (--join_timeout) waiting for " + missing_text()});
}

Notifications Round::join_active(const Join& event) {
  if (auto sentence = refusal_of(event)) return {{event.node, Refused{*sentence}}};
  const auto known = nodes_.find(event.node);
  const auto was = known == nodes_.end() ? NodeState::waiting : known->second.state;
  admit(event);

  const Node& node = nodes_.at(event.node);
  if (was == NodeState::running || was == NodeState::finished) {
    return regroup({node_name(node) + " rejoined without its workers", {}, restarts()});
  }
  return node.state == NodeState::held ? Notifications() : take_in(node);
}

/// Makes room for a node that waits.
Notifications Round::take_in(const Node& node) {
  const int members = count(NodeState::running) + count(NodeState::finished);
  // Finished work is not thrown away to make room for a new node.
  if (members < spec_.max_nodes && count(NodeState::finished) == 0) {
    return regroup({node_name(node) + " joined", {}, restarts()});
  }
  prior_rounds_.forget_failures();
  return {};
}

Notifications Round::fail_active(const Fail& event) {
  if (!runs(event.node, event.round)) return {};
  return restart_or_end(event.failure, failed_on(event.failure));
}

Notifications Round::restart_or_end(const Failure& failure, const std::string& reason) {
  std::string no_restart = budget_.refusal(round_, now_ - started_, now_);
  if (!no_restart.empty()) return end({failure, round_, "", std::move(no_restart)}, reason);
  budget_.spend(now_);
  return regroup({reason, failure, restarts()});
}

Notifications Round::succeed_active(const Succeed& event) {
  if (!runs(event.node, event.round)) return {};
  set_state(nodes_.at(event.node), NodeState::finished);
  return count(NodeState::running) > 0 ? Notifications{} : close(Succeeded{});
}

Notifications Round::gone_active(const Gone& event) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) return {};
  const Node node = found->second;
  depart(event);
  // The others do not need a node that has finished.
  if (node.state != NodeState::running) return {};
  const std::string reason = node_name(node) + event.how;
  if (event.failure.empty()) return regroup({reason, {}, restarts()});
  return restart_or_end(loss_of(node, event.failure, now_ - started_), reason);
}

/// Whether there may be a round that no node has reported: an elected master knows of one, or a
/// node comes from another master, which may have ended just after that node's lease was renewed.
bool Round::is_prior_round_unreported() const {
  if (!unreported_.empty() || (had_another_master_ && !prior_rounds_.are_known())) return true;
  return inherited_ && round_ < 0 && prior_rounds_.latest().round() < inherited_->round;
}

/// When workers of an earlier master's round have ended; in the past: there are none.
Round::Time Round::prior_round_ends() const {
  const bool may_run = prior_rounds_.missing() > 0 || is_prior_round_unreported();
  return may_run ? *began_ + eviction_timeout_ : Time::min();
}

/// Whether all members of earlier rounds that nodes have reported are back; later nodes are new.
bool Round::all_past_members_back() const {
  return stopping() == 0 && (past_members_waiting_ > 0 || prior_rounds_.all_back());
}

/// When the next round starts if no event comes before; nullopt: too few nodes are waiting.
std::optional<Round::Time> Round::starts_at() const {
  if (!enough_since_) return std::nullopt;
  const Time allowed = std::max(budget_.pause_ends(), prior_round_ends());
  // A round without them would be broken again when they join. If workers are slow to stop, two
  // halves of a job could take turns without end.
  if (stopping() > 0) return std::max(allowed, since_ + spec_.join_timeout);
  if (count(NodeState::waiting) >= spec_.max_nodes || all_past_members_back()) {
    return std::max(allowed, *enough_since_);
  }
  return std::max(allowed, *enough_since_ + spec_.last_call);
}

/// If no master has acted on a failure, counts it once: it costs a restart, or ends the job. Waits
/// until all nodes are back that could report a later round or another count.
Notifications Round::count_prior_failure() {
  const PriorRound prior = prior_rounds_.latest();
  if (!prior.failure() || now_ < prior_round_ends()) return {};
  const Failure& failure = *prior.failure();
  prior_rounds_.forget_failures();
  if (prior.restarts() < restarts()) return {};  // an earlier master has counted it
  // As for a lost node: losing the elected master's node, or its store, makes workers fail.
  if (inherited_) return {};
  const auto uptime =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(failure.seconds));
  std::string no_restart = budget_.refusal(prior.round(), uptime, now_);
  if (no_restart.empty()) return budget_.spend(now_), Notifications();
  Notifications notifications =
      end({failure, prior.round(), "", std::move(no_restart)}, failed_on(failure));
  failure_summary_ = prior.exits();
  append(notifications, close_if_all_back());
  return notifications;
}

/// Call it when prior_rounds_ or the time has changed.
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
  return at && now_ >= *at && !prior_rounds_.latest().failure() ? start() : Notifications{};
}

/// A node that is lost before it has joined again may be the one that the others waited for.
void Round::forget_suspect(const Gone& gone) {
  const auto node = nodes_.find(gone.node);
  if (node == nodes_.end() || node->second.state != NodeState::returning) return;
  is_suspect_sought_ = false;
  suspect_ = {};
}

/// Makes all members stop their workers and join again.
Notifications Round::break_round(const Broken& news) {
  since_ = now_;
  suspect_ = {};
  is_suspect_sought_ = news.root_cause && news.root_cause->pid != 0;
  if (news.root_cause) suspect_.add_named(named_suspect(*news.root_cause, nodes_));
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
  append(notifications, go_on());
  return notifications;
}

/// The members get the answer when all are back.
Notifications Round::end(Failed failed, const std::string& reason) {
  phase_ = Phase::ending;
  failed_ = std::move(failed);
  return break_round({reason, failed_.root_cause, restarts(), true});
}

Notifications Round::close_if_all_back() {
  if (stopping() > 0 && now_ < since_ + spec_.join_timeout) return {};
  failed_.summary = named_ranks_text(failed_.root_cause, nodes_);
  const std::string others = failure_summary_.text(failed_.root_cause.rank);
  if (!failed_.summary.empty() && !others.empty()) failed_.summary += '\n';
  failed_.summary += others;
  failed_.suspect = stopping() > 0 ? "" : suspect_.text();
  return close(failed_);
}

Notifications Round::close(Ending ending) {
  phase_ = Phase::closed;
  ending_ = std::move(ending);
  members_ = members_text(nodes_, round_);
  Notifications notifications;
  for (const auto& [id, node] : nodes_) {
    if (node.state == NodeState::leaving) continue;
    if (node.last_round < 0 && is_left_out(node.request)) {
      notifications.emplace_back(id, Refused{members_, true});
    } else {
      notifications.emplace_back(id, Closed{*ending_});
    }
  }
  return notifications;
}

/// A node that never had a place in a job of fixed size was probably meant for another job.
bool Round::is_left_out(const JoinRequest& request) const {
  if (inherited_ && inherited_->ending) return request.last_round < 0;
  return request.last_round < 0 && round_ >= 0 && spec_.min_nodes == spec_.max_nodes &&
         !std::holds_alternative<TimedOut>(*ending_);
}

std::string Round::waiting_for() const {
  const bool may_give_up =
      phase_ == Phase::forming && !enough_since_ && held_until_.empty() && !no_participants();
  return missing_text() + (may_give_up ? "; giving up after " + duration_text(spec_.join_timeout) +
                                             " (--join_timeout)"
                                       : "");
}

std::string Round::missing_text() const {
  switch (phase_) {
    case Phase::forming:
      if (!enough_since_ || stopping() > 0) break;
      if (now_ < prior_round_ends()) {
        if (!is_prior_round_unreported())
          return prior_round_text(prior_rounds_.awaited(), eviction_timeout_);
        return prior_round_text(inherited_ ? inherited_->round : -1, eviction_timeout_);
      }
      if (now_ < budget_.pause_ends()) {
        return "the end of a pause of " + duration_text(budget_.pause()) +
               " after the failure (--restart_backoff)";
      }
      break;
    case Phase::active:
      if (count(NodeState::finished) > 0) return "all nodes to finish" + running_text(nodes_);
      if (count(NodeState::held) > 0) return "a place" + held_text(nodes_);
      return "a place: all " + nnodes_text(spec_) + " nodes of this job are running";
    case Phase::ending:
      return "the end of a job that failed" + stopping_text(nodes_);
    case Phase::closed:
      return "";
  }
  return membership_text(nodes_, spec_);
}

}  // namespace ddprun::rendezvous
