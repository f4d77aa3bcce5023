// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
/// makes. Small data goes with that exchange, which then is all of the call. Large data
/// follows with CpuPairwiseExchange, once the calls are known to agree.
///
/// That is the fastest for a few ranks. Of more than eight each exchanges calls, and little data of
/// calls that have the same for all, with log2(n) others instead.
///
/// Thread: one at a time.
class CpuCollectives {
 public:
  CpuCollectives(GroupContext& context, CpuMesh& mesh);

  /// Returns when this rank's part is done. Throws ddp::Error, the agreed error, if the ranks'
  /// calls differ; and what CpuMesh::move() throws. Must not be used after either.
  void run(const Task& task, const Call& call);

  /// By rank, what each has, all of which call this. In a tree, in which a rank deals with its
  /// partners() alone: in all that takes two messages a rank, however many there are. Throws what
  /// CpuMesh::move() throws.
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

  /// With the data of a call that the ranks of `part` alone make, at most CpuCallExchange::kLimit
  /// bytes of it. Throws as run().
  void broadcast_little(const CpuPart& part, const Call& call, char* data, std::size_t bytes,
                        int root);
  /// `sums` is an all_reduce, or a reduce to the rank with the index `root`, whose sums have the
  /// type of its elements.
  void reduce_little(const CpuPart& part, const Call& call, const Task& sums);
  /// `out` has a block of so many bytes for each, with this rank's already in its place.
  void all_gather_little(const CpuPart& part, const Call& call, char* out, std::size_t bytes);
  /// Each gets its share of the elements of `sums`, a share by index.
  void reduce_scatter_little(const CpuPart& part, const Call& call, const Task& sums,
                             const std::vector<Share>& shares);

  /// For a call that goes on in parts: exchanges it among the ranks of `part` alone, as
  /// run() begins with. Throws as run().
  void agree(const CpuPart& part, const Call& call);
  /// The same among all ranks, and how many elements each sends each other, `sends` and `expects`
  /// by rank: what a call does not say whose counts may differ.
  void agree_on_counts(const Call& call, const std::function<std::size_t(int other)>& sends,
                       const std::function<std::size_t(int other)>& expects);
  /// They move data after an agree().
  CpuPairwiseExchange& pairwise() { return pairwise_; }
  CpuReduce& reduction() { return reduce_; }

 private:
  void exchange_call(const CpuPart& part, const Call& call);
  void check(const Call& call, const ExchangePayload& ours, int other);
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
  std::vector<ExchangePayload> payloads_;  // of the current call, by index
  std::vector<char> scratch_;
};

}  // namespace ddp::internal
