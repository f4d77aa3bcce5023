// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/backends/cpu/collectives.h"
#include "collectives/backends/cpu/node_blocks.h"
#include "collectives/backends/cpu/node_group.h"
#include "collectives/backends/group_context.h"
#include "collectives/call/blocks.h"
#include "collectives/call/partial_sums.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// So much data for single ranks goes to all of them rather, in fewer steps: bytes. The next power
/// of two takes longer than between all ranks, at 2 Gbit/s.
inline constexpr std::size_t kLittleForAll = std::size_t{16} << 10;

/// Does those calls of a group with several nodes that have a block of each rank.
///
/// Between nodes little data goes from first rank to first rank, also such that only other ranks
/// need. Of all_gather and reduce_scatter each block comes to a node, or its sum leaves one, once,
/// and not once for each rank there: of the blocks of a node that are long each rank takes a share,
/// which goes to or comes from its counterparts, by MPICH's pairwise exchange (see
/// CpuPairwiseExchange); after, or before, each step the ranks of a node put the shares together in
/// their memory.
///
/// Thread: one at a time.
class NodeBlockCollectives {
 public:
  /// All must outlive this.
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
  void agree(const Task& task, const Blocks& blocks, const Call& call);

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
  std::vector<char> packed_;  // blocks of a node, or by node, each with room for the largest
  std::vector<char> ours_;    // the same of this rank's node
  std::vector<char> loaded_;  // elements, as sums
  std::vector<char> sums_;    // of the share that this rank gets
  std::vector<char> part_;    // of another node's
  std::vector<char> theirs_;
};

}  // namespace ddp::internal
