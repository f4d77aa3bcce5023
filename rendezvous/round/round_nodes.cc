// SPDX-License-Identifier: Apache-2.0
// The bookkeeping of Round: its nodes, and their counts.
#include <algorithm>

#include "rendezvous/membership_text.h"
#include "rendezvous/round/admission.h"
#include "rendezvous/round/round.h"

namespace ddprun::rendezvous {

std::optional<std::string> Round::refusal_of(const Join& event) const {
  if (nodes_.contains(event.node)) return std::nullopt;
  return refusal(event.request, {spec_, nodes_, rank_holders_, last_round_, commands_});
}

void Round::admit(const Join& event) {
  unreported_.erase(event.node);
  if (const auto known = nodes_.find(event.node); known != nodes_.end()) {
    Node& node = known->second;
    const auto node_rank = node.request.node_rank;
    node.request = event.request;
    node.request.node_rank = node_rank;
    node.request.worker_exits = {};
    node.request.host = name_text(event.request.host);
    set_state(node, NodeState::waiting);
    return;
  }
  // A node of this master's rounds cannot report anything new.
  if (event.request.last_master != master_) {
    JoinRequest report = event.request;
    // If a later round has followed, the failure is old news, but its workers may still run.
    const bool is_old = report.last_round <= round_ || report.last_round < last_round_;
    if (is_old) report.unreported_failure.reset();
    prior_rounds_.learn(report);
  }
  last_round_ = std::max(last_round_, event.request.last_round);
  budget_.learn(event.request.restarts, now_);

  Node& node = nodes_[event.node];
  node.id = event.node;
  node.request = event.request;
  node.request.worker_exits = {};
  node.request.host = name_text(event.request.host);
  node.order = joins_++;
  if (const auto hold = losses_.joined(event.node, event.request, now_); hold > hold.zero()) {
    node.state = NodeState::held;
    held_until_.emplace(event.node, now_ + hold);
  }
  node.losses = losses_.losses_before(event.node);
  ++count_[static_cast<size_t>(node.state)];
  if (event.request.node_rank) rank_holders_.emplace(*event.request.node_rank, event.node);
}

void Round::set_state(Node& node, NodeState next) {
  if (node.last_round >= 0 && node.state == NodeState::waiting) --past_members_waiting_;
  if (node.last_round >= 0 && next == NodeState::waiting) ++past_members_waiting_;
  --count_[static_cast<size_t>(node.state)];
  ++count_[static_cast<size_t>(next)];
  node.state = next;
}

/// Removes a node, or makes it leaving if its workers may run.
void Round::depart(const Gone& event) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  const bool has_none = node.state == NodeState::waiting || node.state == NodeState::held ||
                        node.state == NodeState::finished;
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
  held_until_.erase(id);
  nodes_.erase(found);
}

/// Lets the nodes whose hold is over wait like any other, and returns them.
std::vector<NodeId> Round::release_held() {
  std::vector<NodeId> released;
  for (const auto& [id, until] : held_until_) {
    if (until <= now_) released.push_back(id);
  }
  for (const NodeId id : released) {
    held_until_.erase(id);
    set_state(nodes_.at(id), NodeState::waiting);
  }
  return released;
}

const Node* Round::holder_of(int node_rank) const {
  const auto holder = rank_holders_.find(node_rank);
  return holder == rank_holders_.end() ? nullptr : &nodes_.at(holder->second);
}

bool Round::runs(NodeId id, int round) const {
  const auto node = nodes_.find(id);
  return round == round_ && node != nodes_.end() && node->second.state == NodeState::running;
}

}  // namespace ddprun::rendezvous
