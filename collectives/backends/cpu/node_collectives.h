// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/collectives.h"
#include "collectives/backends/cpu/node_block_collectives.h"
#include "collectives/backends/cpu/node_group.h"
#include "collectives/backends/cpu/shared_memory.h"
#include "collectives/backends/shm/ring.h"
#include "collectives/call/partial_sums.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Does collective tasks in the memory that ranks of a node share, and over the mesh between nodes.
///
/// Between nodes little data goes from the first rank of each node to those of the others. In
/// all_reduce and reduce, long data is divided among the ranks of a node. Each combines its share
/// with its counterparts, the ranks with the same place on the other nodes. So no data crosses the
/// network more often than it must, and all ranks of a node use it. For calls with a block of each
/// rank see NodeBlockCollectives. In gather, scatter and all_to_all every block crosses the network
/// at most once anyway, so their long data goes over the mesh as if no ranks shared memory.
///
/// The ranks of each node compare a call first, in their memory, then the first ranks of all nodes.
/// Nothing else is sent between nodes before, so ranks in different calls always meet in one of
/// these comparisons. No rank returns before both.
///
/// Thread: one at a time, except stop().
class NodeCollectives {
 public:
  /// `context` and `whole` must outlive this.
  NodeCollectives(GroupContext& context, CpuCollectives& whole, SharedMemory shared);
  NodeCollectives(const NodeCollectives&) = delete;
  NodeCollectives& operator=(const NodeCollectives&) = delete;

  /// Returns when this rank's part is done. Throws ddp::Error, the agreed error, if the ranks'
  /// calls differ; ShmStopped, whose rank is a place on the node; and what CpuMesh::move() throws.
  /// After a throw, this object must not be used.
  void run(const Task& task, const Call& call);
  /// Whether run() needs no wait for other ranks.
  bool is_ready(const Task& task) { return are_on_one_node() && own_.memory()->is_ready(task); }

  /// See ShmCollectives::allocate(), for a task of Operation::allocate; null if the group has
  /// several nodes. Throws as run().
  std::shared_ptr<void> allocate(const Task& task, const Call& call);

  /// Whether all ranks of the group share memory: then run() does not use the mesh.
  bool are_on_one_node() const { return own_.nodes().count() == 1; }

  /// The rings between this rank and the others of its node; nullopt if it is alone there.
  std::optional<ShmRings> rings() const;

  /// The ranks of this rank's node, by place.
  const std::vector<int>& ranks_here() const { return own_.nodes().ranks(own_.node()); }

  /// Notifies the ranks of this node that this one makes no more calls. The last call.
  void leave() {
    if (own_.memory() != nullptr) own_.memory()->leave();
  }

  /// The connection to a rank has ended: if it is of this node and has not left, stops. Thread:
  /// any.
  void on_end(int rank) noexcept;

  /// From now on run() throws ShmStopped if it has to wait for ranks of this node. Thread: any.
  void stop() noexcept;

 private:
  void barrier(const Call& call);
  void broadcast(const Task& task, const Call& call);
  void scatter(const Task& task, const Call& call);
  void reduce(const Task& task, const Call& call);
  void reduce_by_leaders(const Task& task, const PartialSums& by, const char* in, const Call& call);
  void reduce_in_shares(const Task& task, const PartialSums& by, const char* in, const Call& call);
  void combine_with_counterparts(const Task& task, const PartialSums& by, std::size_t count);
  bool gets_result(const Task& task, int node) const;
  char* result_of(const Task& task);

  GroupContext& context_;
  CpuCollectives& whole_;
  NodeGroup own_;
  NodeBlockCollectives blocks_;
  std::vector<char> loaded_;  // elements of the task, as sums
  std::vector<char> sums_;
  std::vector<char> result_;  // a reduce's, on other ranks than the root; all of a scatter
};

}  // namespace ddp::internal
