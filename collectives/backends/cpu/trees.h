// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/backends/cpu/pairwise_exchange.h"
#include "collectives/backends/cpu/part.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Little data in a part of many ranks, in log2(n) steps, of each of which a rank sends to and
/// receives from one at most. Ranks must have agreed on the call. Throws what CpuMesh::move()
/// throws.
///
/// Data is combined in an order that depends on nothing but the number of ranks, and rounded once.
class CpuTrees {
 public:
  explicit CpuTrees(CpuPairwiseExchange& pairwise) : pairwise_(pairwise) {}

  /// The ranks with which one whose index is `index` deals in gather(), and in broadcast() from the
  /// first: two of a rank on the average.
  static std::vector<int> neighbours(int index, int size);

  /// From the rank with the index `root` to all.
  void broadcast(const CpuPart& part, char* data, std::size_t bytes, int root);

  /// A task of Operation::reduce or all_reduce.
  void reduce(const CpuPart& part, const Task& task);

  /// `out` has a block of so many bytes for each rank, with this one's already in its place. To the
  /// first rank of the part; others may get some blocks, too.
  void gather(const CpuPart& part, char* out, std::size_t bytes);
  /// To all.
  void all_gather(const CpuPart& part, char* out, std::size_t bytes);

 private:
  CpuPairwiseExchange& pairwise_;
  std::vector<char> sums_;
  std::vector<char> theirs_;
  std::vector<char> blocks_;
};

}  // namespace ddp::internal
