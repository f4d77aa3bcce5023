// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/backends/cpu/pairwise_exchange.h"
#include "collectives/backends/cpu/part.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Moves little data in a part of many ranks, in log2(n) steps. In a step a rank sends to at most
/// one rank and receives from at most one. Ranks must have agreed on the call. Throws what
/// CpuMesh::move() throws.
///
/// Combines data in an order that depends only on the number of ranks, and rounds once.
class CpuTrees {
 public:
  explicit CpuTrees(CpuPairwiseExchange& pairwise) : pairwise_(pairwise) {}

  /// The ranks that one with this index deals with in gather(), and in broadcast() from the first:
  /// two a rank on average.
  static std::vector<int> neighbours(int index, int size);

  /// Sends from the rank with the index `root` to all.
  void broadcast(const CpuPart& part, char* data, std::size_t bytes, int root);

  /// Does a task of Operation::reduce or all_reduce.
  void reduce(const CpuPart& part, const Task& task);

  /// Gathers to the first rank of the part; others may get some blocks, too. `out` has a block of
  /// `bytes` for each rank, with this rank's already in place.
  void gather(const CpuPart& part, char* out, std::size_t bytes);
  /// The same to all ranks.
  void all_gather(const CpuPart& part, char* out, std::size_t bytes);

 private:
  CpuPairwiseExchange& pairwise_;
  std::vector<char> sums_;
  std::vector<char> theirs_;
  std::vector<char> blocks_;
};

}  // namespace ddp::internal
