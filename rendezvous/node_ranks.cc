// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node_ranks.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace ddprun::rendezvous {
namespace {

/// The node rank that `node` should have if it is free; -1: any.
int wish(const Node& node) {
  if (node.request.node_rank) return *node.request.node_rank;
  return node.node_rank.value_or(node.request.last_node_rank);
}

/// The latest round that it was in, be it an earlier master's.
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

/// The node on the rendezvous host that is to have node rank 0; null when there is none, or when
/// the user gave the ranks. Where several live there, a survivor keeps its rank if it can: the one
/// that had 0 goes before a newcomer, and a newcomer before the others.
Node* host_node(const std::vector<Node*>& members) {
  Node* host = nullptr;
  for (Node* node : members) {
    if (node->request.node_rank) return nullptr;
    if (!node->request.is_host) continue;
    const auto claim = [](const Node& n) { return wish(n) == 0 ? 0 : wish(n) < 0 ? 1 : 2; };
    if (host == nullptr || claim(*node) < claim(*host)) host = node;
  }
  return host;
}

}  // namespace

std::vector<Node*> assign_node_ranks(Nodes& nodes, int max_nodes) {
  const std::vector<Node*> members = participants(nodes, max_nodes);
  std::vector<Node*> seat(members.size(), nullptr);

  Node* const host = host_node(members);
  if (host != nullptr) seat[0] = host;

  std::vector<Node*> standing;
  for (Node* node : members) {
    if (node == host) continue;
    const auto rank = static_cast<size_t>(wish(*node));  // -1 is out of range, too
    if (rank < seat.size() && seat[rank] == nullptr) {
      seat[rank] = node;
    } else {
      standing.push_back(node);
    }
  }
  // Those who had a rank keep their order; newcomers come after them.
  std::stable_sort(standing.begin(), standing.end(), [](const Node* a, const Node* b) {
    return static_cast<size_t>(wish(*a)) < static_cast<size_t>(wish(*b));
  });

  size_t free = 0;
  for (Node* node : standing) {
    while (seat[free] != nullptr) ++free;
    seat[free] = node;
  }
  return seat;
}

}  // namespace ddprun::rendezvous
