// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round.h"

#include <algorithm>

#include "base/text.h"
#include "rendezvous/roll_call.h"
#include "rendezvous/seats.h"

namespace ddprun::rendezvous {
namespace {

template <class T, class Event>
const T* is(const Event& event) {
  return std::get_if<T>(&event);
}

}  // namespace

Letters Round::join(NodeId node, JoinRequest request, Time now) {
  return on(Join{node, std::move(request)}, now);
}

Letters Round::fail(NodeId node, int round, Failure failure, Time now) {
  return on(Fail{node, round, std::move(failure)}, now);
}

Letters Round::succeed(NodeId node, int round, Time now) {
  return on(Succeed{node, round}, now);
}

Letters Round::leave(NodeId node, Time now) {
  return on(Gone{node, " left"}, now);
}

Letters Round::vanish(NodeId node, const std::string& reason, Time now) {
  return on(Gone{node, " is gone: " + reason}, now);
}

Letters Round::tick(Time now) {
  return on(Tick{}, now);
}

std::optional<Round::Time> Round::deadline() const {
  if (phase_ != Phase::forming || nodes_.empty()) return std::nullopt;
  if (enough_since_ && count(Place::returning) == 0) return *enough_since_ + spec_.last_call;
  return forming_since_ + spec_.join_timeout;
}

Letters Round::on(const Event& event, Time now) {
  switch (phase_) {
    case Phase::forming:
      return while_forming(event, now);
    case Phase::active:
      return while_active(event, now);
    case Phase::closed:
      return while_closed(event);
  }
  return {};
}

Letters Round::while_forming(const Event& event, Time now) {
  if (auto* e = is<Join>(event)) {
    if (auto sentence = refusal(*e)) return {{e->node, Refused{*sentence}}};
    if (nodes_.empty()) forming_since_ = now;
    admit(*e);
    return start_if_complete(now);
  }
  if (auto* e = is<Gone>(event)) {
    forget(e->node);
    return start_if_complete(now);
  }
  if (is<Tick>(event)) {
    Letters letters = start_if_complete(now);
    if (phase_ != Phase::forming || enough_since_ || nodes_.empty()) return letters;
    if (now < forming_since_ + spec_.join_timeout) return letters;
    return close(TimedOut{"gave up after " + duration_text(now - forming_since_) +
                          " (--join_timeout) waiting for " + waiting_for()});
  }
  return {};  // Fail, Succeed: of a round that is already broken
}

Letters Round::while_active(const Event& event, Time now) {
  if (auto* e = is<Join>(event)) return join_active(*e, now);
  if (auto* e = is<Fail>(event)) return fail_active(*e, now);
  if (auto* e = is<Succeed>(event)) return succeed_active(*e);
  if (auto* e = is<Gone>(event)) return gone_active(*e, now);
  return {};
}

Letters Round::while_closed(const Event& event) const {
  if (auto* e = is<Join>(event)) return {{e->node, Closed{*ending_}}};
  return {};
}

Letters Round::join_active(const Join& event, Time now) {
  if (auto sentence = refusal(event)) return {{event.node, Refused{*sentence}}};
  const auto known = nodes_.find(event.node);
  const auto was = known == nodes_.end() ? Place::waiting : known->second.place;
  admit(event);

  const std::string name = node_name(nodes_.at(event.node));
  if (was == Place::running || was == Place::finished) {
    return regroup({name + " came back without its workers", {}, restarts_}, now);
  }
  const int members = count(Place::running) + count(Place::finished);
  // Finished work is not thrown away to make room for a newcomer.
  if (members >= spec_.max_nodes || count(Place::finished) > 0) return {};
  return regroup({name + " joined", {}, restarts_}, now);
}

Letters Round::fail_active(const Fail& event, Time now) {
  if (!runs(event.node, event.round)) return {};
  if (restarts_ >= spec_.max_restarts) return close(Failed{event.failure});
  ++restarts_;
  const std::string reason =
      "rank " + std::to_string(event.failure.rank) + " failed on " + event.failure.host;
  return regroup({reason, event.failure, restarts_}, now);
}

Letters Round::succeed_active(const Succeed& event) {
  if (!runs(event.node, event.round)) return {};
  place(nodes_.at(event.node), Place::finished);
  return count(Place::running) > 0 ? Letters{} : close(Succeeded{});
}

Letters Round::gone_active(const Gone& event, Time now) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) return {};
  const bool was_running = found->second.place == Place::running;
  const std::string reason = node_name(found->second) + event.how;
  forget(event.node);
  // Without a finished node the others can still finish: its part is done.
  return was_running ? regroup({reason, {}, restarts_}, now) : Letters{};
}

std::optional<std::string> Round::refusal(const Join& event) const {
  if (nodes_.contains(event.node)) return std::nullopt;
  if (!event.request.node_rank) {
    if (asked_.empty()) return std::nullopt;
    return "--node_rank is given on " + nodes_.at(asked_.begin()->second).request.host +
           " but not here: give it on every node or on none";
  }
  const int rank = *event.request.node_rank;
  if (rank < 0 || rank >= spec_.max_nodes) return out_of_range(rank, spec_);
  if (asked_.empty() && !nodes_.empty()) {
    return "--node_rank is given here but not on " + nodes_.begin()->second.request.host +
           ": give it on every node or on none";
  }
  if (const auto holder = asked_.find(rank); holder != asked_.end()) {
    return "node_rank " + std::to_string(rank) + " is already taken by " +
           nodes_.at(holder->second).request.host;
  }
  return std::nullopt;
}

void Round::admit(const Join& event) {
  last_round_ = std::max(last_round_, event.request.last_round);
  restarts_ = std::max(restarts_, event.request.restarts);

  if (const auto known = nodes_.find(event.node); known != nodes_.end()) {
    Node& node = known->second;
    const auto node_rank = node.request.node_rank;
    node.request = event.request;
    node.request.node_rank = node_rank;
    place(node, Place::waiting);
    return;
  }
  Node& node = nodes_[event.node];
  node.id = event.node;
  node.request = event.request;
  node.order = joins_++;
  ++count_[static_cast<size_t>(Place::waiting)];
  if (event.request.node_rank) asked_.emplace(*event.request.node_rank, event.node);
}

void Round::place(Node& node, Place next) {
  if (node.last_round >= 0 && node.place == Place::waiting) --former_waiting_;
  if (node.last_round >= 0 && next == Place::waiting) ++former_waiting_;
  --count_[static_cast<size_t>(node.place)];
  ++count_[static_cast<size_t>(next)];
  node.place = next;
}

void Round::forget(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  const Node& node = found->second;
  if (node.last_round >= 0 && node.place == Place::waiting) --former_waiting_;
  --count_[static_cast<size_t>(node.place)];
  if (node.request.node_rank) asked_.erase(*node.request.node_rank);
  nodes_.erase(found);
}

bool Round::runs(NodeId id, int round) const {
  const auto node = nodes_.find(id);
  return round == round_ && node != nodes_.end() && node->second.place == Place::running;
}

bool Round::complete(Time now) const {
  if (!enough_since_) return false;
  // Going on without them would only break the round again when they are ready: with workers that
  // are slow to stop, two halves of a job could take turns for ever.
  if (count(Place::returning) > 0) return now >= forming_since_ + spec_.join_timeout;
  if (count(Place::waiting) >= spec_.max_nodes || former_waiting_ > 0) return true;
  return now >= *enough_since_ + spec_.last_call;
}

Letters Round::start_if_complete(Time now) {
  if (count(Place::waiting) < spec_.min_nodes) {
    enough_since_.reset();
  } else if (!enough_since_) {
    enough_since_ = now;
  }
  return complete(now) ? start() : Letters{};
}

Letters Round::start() {
  phase_ = Phase::active;
  round_ = ++last_round_;
  enough_since_.reset();

  const std::vector<Node*> members = seats(nodes_, spec_.max_nodes);
  Layout layout;
  layout.world_size = 0;
  layout.round = round_;
  layout.restarts = restarts_;
  layout.node_count = static_cast<int>(members.size());
  for (const Node* node : members) layout.world_size += node->request.local_size;

  Letters letters;
  letters.reserve(members.size());
  for (Node* node : members) {
    layout.local_size = node->request.local_size;
    place(*node, Place::running);
    node->last_round = round_;
    node->node_rank = layout.node_rank;
    letters.emplace_back(node->id, Ready{layout});
    ++layout.node_rank;
    layout.first_rank += layout.local_size;
  }
  return letters;
}

Letters Round::regroup(const Broken& news, Time now) {
  phase_ = Phase::forming;
  forming_since_ = now;

  Letters letters;
  for (auto& [id, node] : nodes_) {
    if (node.place != Place::running && node.place != Place::finished) continue;
    place(node, Place::returning);
    letters.emplace_back(id, news);
  }
  // A spare may fill the round at once.
  for (auto& letter : start_if_complete(now)) letters.push_back(std::move(letter));
  return letters;
}

Letters Round::close(Ending ending) {
  phase_ = Phase::closed;
  Letters letters;
  for (const auto& [id, node] : nodes_) letters.emplace_back(id, Closed{ending});
  ending_ = std::move(ending);
  return letters;
}

std::string Round::waiting_for() const {
  switch (phase_) {
    case Phase::forming:
      return roll_call(nodes_, spec_);
    case Phase::active:
      if (count(Place::finished) > 0) return "the end of a job that has begun to finish";
      return "a place: all " + nnodes_text(spec_) + " nodes of this job are running";
    case Phase::closed:
      return "";
  }
  return "";
}

}  // namespace ddprun::rendezvous
