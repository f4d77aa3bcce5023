// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/collectives.h"
#include "collectives/backends/cpu/nodes.h"
#include "collectives/backends/cpu/part.h"
#include "collectives/backends/cpu/shared_memory.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// This rank in a group with several nodes, and the steps of its calls: steps in the memory of its
/// node, and steps with its counterparts, the ranks with the same place on the other nodes.
///
/// Thread: one at a time.
class NodeGroup {
 public:
  /// `whole` must outlive this.
  NodeGroup(const GroupContext& context, CpuCollectives& whole, SharedMemory shared);

  const Nodes& nodes() const { return nodes_; }
  int node() const { return node_; }
  int place() const { return place_; }
  /// The node `steps` after this rank's, or before it, around the end.
  int node_after(int steps) const { return (node_ + steps) % nodes_.count(); }
  int node_before(int steps) const { return (node_ + nodes_.count() - steps) % nodes_.count(); }

  /// Whether this is the first rank of its node.
  bool leads() const { return place_ == 0; }
  /// The counterparts by node; none if a node has no rank at this place.
  const std::optional<CpuPart>& counterparts() const { return counterparts_; }
  /// Null if this rank is alone on its node.
  ShmCollectives* memory() const { return memory_.get(); }

  /// Does a part of `call` within the node, whose ranks compare the call. Ranks, roots and counts
  /// of the task are those of the node. An empty task is a barrier.
  void run(const Task& task, const Call& call);

  /// Compares the call between nodes; only first ranks do it.
  void agree(const Call& call);

  /// Divides `count` elements among the ranks of a node that have counterparts. The second function
  /// is by place on this rank's node, with 0 for ranks without counterparts.
  Blocks shares(std::size_t count) const { return Blocks::even(count, nodes_.smallest()); }
  std::vector<std::size_t> shares_by_place(std::size_t count) const;

 private:
  CpuCollectives& whole_;
  const Nodes nodes_;
  const std::unique_ptr<ShmCollectives> memory_;
  const int node_;
  const int place_;
  std::optional<CpuPart> counterparts_;
};

}  // namespace ddp::internal
