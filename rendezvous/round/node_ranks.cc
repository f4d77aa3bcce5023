// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/node_ranks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>

namespace ddprun::rendezvous {
namespace {

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

}  // namespace

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

}  // namespace ddprun::rendezvous
