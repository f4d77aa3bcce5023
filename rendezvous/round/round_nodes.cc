// SPDX-License-Identifier: Apache-2.0
// The nodes of Round: their states, how many have each, and the ranks that a round gives them.
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "rendezvous/membership_text.h"
#include "rendezvous/round/admission.h"
#include "rendezvous/round/round.h"

namespace ddprun::rendezvous {
namespace {

/// More than any job has nodes.
constexpr size_t kMostCommands = 65'536;

/// The node rank that `node` should have if it is free; -1: any.
int wanted_rank(const Node& node) {
  if (node.request.node_rank) return *node.request.node_rank;
  return node.node_rank.value_or(node.request.last_node_rank);
}

/// The latest round that `node` was in, also an earlier master's.
int latest_round(const Node& node) {
  return std::max(node.last_round, node.request.last_round);
}

std::vector<Node*> participants(Nodes& nodes, int max_nodes) {
  std::vector<Node*> waiting;
  for (auto& [id, node] : nodes) {
    if (node.state == NodeState::waiting) waiting.push_back(&node);
  }
  std::sort(waiting.begin(), waiting.end(), [](const Node* a, const Node* b) {
    return std::tuple(-latest_round(*a), a->order) < std::tuple(-latest_round(*b), b->order);
  });
  if (waiting.size() > static_cast<size_t>(max_nodes))
    waiting.resize(static_cast<size_t>(max_nodes));
  return waiting;
}

/// The node on the rendezvous host that gets node rank 0; null if there is none, or if the user
/// gave the ranks. If there are several, a node that had rank 0 goes first, then a new node; a node
/// with another rank keeps that rank if it can.
Node* host_node(const std::vector<Node*>& members) {
  Node* host = nullptr;
  for (Node* node : members) {
    if (node->request.node_rank) return nullptr;
    if (!node->request.is_host) continue;
    const auto claim = [](const Node& n) {
      return wanted_rank(n) == 0 ? 0 : wanted_rank(n) < 0 ? 1 : 2;
    };
    if (host == nullptr || claim(*node) < claim(*host)) host = node;
  }
  return host;
}

/// If there is more than one role, fills in the places by role, in the order of node ranks.
void assign_role_ranks(const std::vector<Node*>& members, std::vector<Layout>& layouts) {
  std::map<std::string_view, int> sizes;
  for (size_t i = 0; i < members.size(); ++i) {
    int& size = sizes[members[i]->request.role];
    layouts[i].role = RolePlace{size, 0};
    size += layouts[i].local_size;
  }
  for (size_t i = 0; i < members.size(); ++i) {
    layouts[i].role->world_size = sizes[members[i]->request.role];
    if (sizes.size() == 1) layouts[i].role.reset();
  }
}

/// The waiting nodes that take part in the next round, by node rank: element i has node rank i.
/// At most `max_nodes`: members of the latest round first, then of earlier ones, then in order of
/// joining.
std::vector<Node*> assign_node_ranks(Nodes& nodes, int max_nodes) {
  const std::vector<Node*> members = participants(nodes, max_nodes);
  std::vector<Node*> placed(members.size(), nullptr);

  Node* const host = host_node(members);
  if (host != nullptr) placed[0] = host;

  std::vector<Node*> unplaced;
  for (Node* node : members) {
    if (node == host) continue;
    const auto rank = static_cast<size_t>(wanted_rank(*node));  // -1 is out of range, too
    if (rank < placed.size() && placed[rank] == nullptr) {
      placed[rank] = node;
    } else {
      unplaced.push_back(node);
    }
  }
  // Nodes that had a rank keep their order; new nodes come after them.
  std::stable_sort(unplaced.begin(), unplaced.end(), [](const Node* a, const Node* b) {
    return static_cast<size_t>(wanted_rank(*a)) < static_cast<size_t>(wanted_rank(*b));
  });

  size_t free = 0;
  for (Node* node : unplaced) {
    while (placed[free] != nullptr) ++free;
    placed[free] = node;
  }
  return placed;
}

/// The layouts of these members, which are in the order of their node ranks.
std::vector<Layout> layouts_of(const std::vector<Node*>& members, int round, int restarts) {
  Layout layout;
  layout.world_size = 0;
  layout.round = round;
  layout.restarts = restarts;
  layout.node_count = static_cast<int>(members.size());
  layout.store_port = members.front()->request.store_port;
  for (const Node* node : members) {
    layout.world_size += node->request.local_size;
    layout.guests += node->request.hosting ? 0 : 1;
  }
  std::vector<Layout> layouts;
  for (const Node* node : members) {
    layout.local_size = node->request.local_size;
    layouts.push_back(layout);
    ++layout.node_rank;
    layout.first_rank += layout.local_size;
  }
  assign_role_ranks(members, layouts);
  return layouts;
}

}  // namespace

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

Notifications Round::start() {
  phase_ = Phase::active;
  round_ = ++last_round_;
  started_ = now_;
  enough_since_.reset();
  prior_rounds_.settle();
  for (const auto& [id, node] : nodes_) {
    if (commands_.size() < kMostCommands) commands_.insert(node.request.command_hash);
  }

  const std::vector<Node*> members = assign_node_ranks(nodes_, spec_.max_nodes);
  const std::vector<Layout> layouts = layouts_of(members, round_, restarts());
  const std::string suspect = stopping() > 0 ? "" : suspect_.text();
  suspect_ = {};
  Notifications notifications;
  notifications.reserve(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    Node& node = *members[i];
    set_state(node, NodeState::running);
    node.last_round = round_;
    node.node_rank = layouts[i].node_rank;
    node.first_rank = layouts[i].first_rank;
    notifications.emplace_back(node.id, Ready{layouts[i], suspect});
  }
  return notifications;
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
