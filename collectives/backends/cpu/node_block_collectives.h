// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/collectives.h"
#include "collectives/backends/cpu/node_blocks.h"
#include "collectives/backends/cpu/node_group.h"
#include "collectives/call/blocks.h"
#include "collectives/call/partial_sums.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// The bytes up to which data for single ranks rather goes to all of them, in fewer steps. At the
/// next power of two this takes longer than sending between all ranks, at 2 Gbit/s.
inline constexpr std::size_t kLittleForAll = std::size_t{16} << 10;

/// Does the calls of a group with several nodes that have a block of each rank.
///
/// Between nodes little data goes from first rank to first rank, also data that only other ranks
/// need. In all_gather and reduce_scatter each block comes to a node once, or its sum leaves a node
/// once, and not once for each rank there. For that each rank takes a share of a node's blocks if
/// they are long. It exchanges the share with its counterparts, by MPICH's pairwise exchange (see
/// CpuPairwiseExchange). After (or before) each step the ranks of a node put the shares together in
/// their memory.
///
/// Thread: one at a time.
class NodeBlockCollectives {
 public:
  /// These objects must outlive this one.
  NodeBlockCollectives(const GroupContext& context, CpuCollectives& whole, NodeGroup& own)
      : context_(context), whole_(whole), own_(own) {}

  /// Return when this rank's part is done. Throw as NodeCollectives::run().
  void all_gather(const Task& task, const Call& call);
  void gather(const Task& task, const Call& call);
  void all_to_all(const Task& task, const Call& call);
  void reduce_scatter(const Task& task, const Call& call);

 private:
  bool goes_by_leaders(const Task& task, std::size_t bytes) const;
  void go_apart(const Task& task, const Call& call);
  void agree(const Task& task, const Call& call);

  void collect_by_leaders(const void* in, std::size_t bytes, bool gets, const Call& call);
  const char* collected_of(int rank, std::size_t bytes) const;
  void take_blocks(void* out, std::size_t bytes) const;
  void all_gather_in_shares(const Task& task, const Blocks& blocks, const Call& call);
  void fetch_blocks(const Task& task, const NodeBlocks& ours, const char* own, int step,
                    const NodeBlocks& theirs, const Call& call);

  void reduce_scatter_by_leaders(const Task& task, const Blocks& blocks, const PartialSums& by,
                                 const Call& call);
  void reduce_scatter_in_shares(const Task& task, const Blocks& blocks, const PartialSums& by,
                                const Call& call);
  void combine_in_node(const Task& task, const NodeBlocks& theirs, const PartialSums& by,
                       std::vector<char>& sums, const Call& call);
  void store_blocks(const Task& task, const NodeBlocks& ours, const PartialSums& by,
                    const Call& call);

  NodeBlocks blocks_of(const Blocks& all, int node) const {
    return {all, own_.nodes().ranks(node)};
  }

  const GroupContext& context_;
  CpuCollectives& whole_;
  NodeGroup& own_;
  std::vector<char> packed_;  // a node's blocks, or one slot by node with room for the largest
  std::vector<char> ours_;    // the packed blocks of this rank's node
  std::vector<char> loaded_;  // elements, as sums
  std::vector<char> sums_;    // of this rank's share
  std::vector<char> part_;    // this rank's share of another node's blocks
  std::vector<char> theirs_;
};

}  // namespace ddp::internal
