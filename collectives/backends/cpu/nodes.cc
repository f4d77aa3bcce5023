// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/nodes.h"

#include <algorithm>

namespace ddp::internal {

Nodes::Nodes(const std::vector<int>& reached) {
  for (int rank = 0; rank < static_cast<int>(reached.size()); ++rank) {
    const int first = reached[static_cast<std::size_t>(rank)];
    const bool joins = first < rank && reached[static_cast<std::size_t>(first)] == first;
    if (!joins) nodes_.emplace_back();
    node_of_.push_back(joins ? node_of(first) : count() - 1);
    auto& ranks = nodes_[static_cast<std::size_t>(node_of_.back())];
    place_of_.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(rank);
  }
}

int Nodes::smallest() const {
  int smallest = size(0);
  for (int node = 1; node < count(); ++node) smallest = std::min(smallest, size(node));
  return smallest;
}

int Nodes::largest() const {
  int largest = size(0);
  for (int node = 1; node < count(); ++node) largest = std::max(largest, size(node));
  return largest;
}

std::vector<int> Nodes::counterparts(int place) const {
  std::vector<int> all;
  for (const auto& ranks : nodes_) all.push_back(ranks[static_cast<std::size_t>(place)]);
  return all;
}

Nodes Nodes::without_broken(const std::vector<int>& works) const {
  std::vector<int> reached(node_of_.size());
  for (const auto& ranks : nodes_) {
    const bool all_work = std::ranges::all_of(
        ranks, [&](int rank) { return works[static_cast<std::size_t>(rank)] != 0; });
    for (const int rank : ranks) {
      reached[static_cast<std::size_t>(rank)] = all_work ? ranks.front() : rank;
    }
  }
  return Nodes(reached);
}

}  // namespace ddp::internal
