// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "collectives/backends/cpu/call_exchange.h"
#include "collectives/backends/cpu/mesh.h"
#include "collectives/backends/cpu/pairwise_exchange.h"
#include "collectives/backends/cpu/part.h"
#include "collectives/backends/cpu/reduce.h"
#include "collectives/backends/cpu/trees.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Does collective tasks over the mesh.
///
/// Every call begins with a CpuCallExchange, in which each rank sends every other the call that it
/// makes. Small data is sent with that exchange, which then is the whole call. Large data follows
/// with CpuPairwiseExchange, once the calls are known to agree.
///
/// That is the fastest way for a few ranks. With more than eight, each rank exchanges calls with
/// log2(n) others instead, and also little data of calls that have the same for all.
///
/// Thread: one at a time.
class CpuCollectives {
 public:
  CpuCollectives(GroupContext& context, CpuMesh& mesh);

  /// Returns when this rank's part is done. Throws ddp::Error, the agreed error, if the ranks'
  /// calls differ; and what CpuMesh::move() throws. After a throw, this object must not be used.
  void run(const Task& task, const Call& call);

  /// Returns `mine` of all ranks, by rank; all ranks call it. Uses a tree, in which a rank deals
  /// with its partners() alone: two messages a rank in total, however many ranks there are. Throws
  /// what CpuMesh::move() throws.
  template <class T>
  std::vector<T> all_gather(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<std::size_t>(context_.size));
    all[static_cast<std::size_t>(context_.rank)] = mine;
    char* const data = reinterpret_cast<char*>(all.data());
    trees_.gather(whole_, data, sizeof(T));
    trees_.broadcast(whole_, data, all.size() * sizeof(T), 0);
    return all;
  }
  std::vector<int> partners() const { return CpuTrees::neighbours(context_.rank, context_.size); }

  /// Broadcasts within a call that only the ranks of `part` make, at most CpuCallExchange::kLimit
  /// bytes. Throws as run().
  void broadcast_little(const CpuPart& part, const Call& call, char* data, std::size_t bytes,
                        int root);
  /// Reduces: `sums` is an all_reduce, or a reduce to the rank with the index `root`; its sums have
  /// the type of its elements.
  void reduce_little(const CpuPart& part, const Call& call, const Task& sums);
  /// Gathers to all: `out` has a block of `bytes` for each rank, with this rank's already in place.
  void all_gather_little(const CpuPart& part, const Call& call, char* out, std::size_t bytes);
  /// Gives each rank its share of the elements of `sums`; shares are by index.
  void reduce_scatter_little(const CpuPart& part, const Call& call, const Task& sums,
                             const std::vector<Share>& shares);

  /// Compares a call that continues in parts, as run() does, in `part` alone. Throws as run().
  void agree(const CpuPart& part, const Call& call);
  /// The same among all ranks, for a task whose counts may differ: also compares those.
  void agree_on_counts(const Task& task, const Call& call);
  /// These move data after an agree().
  CpuPairwiseExchange& pairwise() { return pairwise_; }
  CpuReduce& reduction() { return reduce_; }

 private:
  void set_counts(const Task& task);
  bool run_in_trees(const Task& task, const Call& call);

  void broadcast(const Task& task, const Call& call);
  void move(const Task& task, const Call& call);
  void reduce(const Task& task, const Call& call);
  void collect_shares(const Task& task, const std::vector<Share>& shares, const char* mine);

  ExchangePayload& payload(int rank) { return payloads_[static_cast<std::size_t>(rank)]; }

  GroupContext& context_;
  const CpuPart whole_;
  CpuCallExchange exchange_;
  CpuPairwiseExchange pairwise_;
  CpuReduce reduce_;
  CpuTrees trees_;
  std::vector<ExchangePayload> payloads_;  // the current call's, by index
  std::vector<char> scratch_;
};

}  // namespace ddp::internal
