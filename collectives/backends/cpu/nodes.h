// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace ddp::internal {

/// Which ranks of a group share memory: the ranks of a node. Every rank is on one node, maybe
/// alone, and all ranks know the same nodes. Ranks of a node are in ascending order, and nodes in
/// the order of their first ranks. A rank's place is its index among the ranks of its node. Pure.
class Nodes {
 public:
  /// `reached`, by rank: the first rank whose memory it reaches, maybe itself. If a rank reaches
  /// one that itself reaches another, it is alone.
  explicit Nodes(const std::vector<int>& reached = {});

  int count() const { return static_cast<int>(nodes_.size()); }
  const std::vector<int>& ranks(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  int size(int node) const { return static_cast<int>(ranks(node).size()); }
  /// The ranks of the node that this rank is on.
  const std::vector<int>& of(int rank) const { return ranks(node_of(rank)); }
  int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  int place_of(int rank) const { return place_of_[static_cast<std::size_t>(rank)]; }

  /// The size of the smallest node: so many ranks have a counterpart on every node.
  int smallest() const;
  /// The size of the largest node.
  int largest() const;

  /// The rank with this place on each node, by node. `place` is below smallest().
  std::vector<int> counterparts(int place) const;

  /// The same nodes, but if `works`, by rank, is 0 for a rank, all ranks of its node are alone.
  Nodes without_broken(const std::vector<int>& works) const;

 private:
  std::vector<std::vector<int>> nodes_;
  std::vector<int> node_of_;   // by rank
  std::vector<int> place_of_;  // by rank
};

}  // namespace ddp::internal
