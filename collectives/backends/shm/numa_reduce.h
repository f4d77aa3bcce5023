// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/numa.h"
#include "collectives/backends/shm/rounds.h"
#include "collectives/call/partial_sums.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// An all_reduce of data in memory that all ranks map, on a host whose ranks are on several NUMA
/// nodes. The ranks of each node combine their data, each a share of it. Ranks with the same share
/// on the other nodes read these sums. So only one rank's data crosses between two nodes in each
/// direction, however many ranks they have (as with the hierarchy of Open MPI's coll/xhc).
///
/// Sums are in slots, a piece in each round.
///
/// Thread: one at a time.
class ShmNumaReduce {
 public:
  ShmNumaReduce(ShmNumaNodes nodes, ShmRounds& rounds, int size)
      : nodes_(std::move(nodes)), rounds_(rounds), size_(size) {}

  /// Whether a task gains by this; the same on all ranks.
  bool suits(const Task& task) const;

  /// Does this rank's part; `exchange` does a round. A round must follow. Throws ShmStopped.
  void run(const Task& task, const ShmPlace& in, const ShmPlace& out,
           const std::function<void()>& exchange);

 private:
  /// Some of this rank's share: where it begins in the data, in bytes, and its elements.
  struct Stretch {
    std::size_t at = 0;
    std::size_t count = 0;
  };
  void combine_own(const Task& task, const ShmPlace& in, Stretch stretch, char* sums);
  void finish(const Task& task, const ShmPlace& out, Stretch stretch, std::size_t shown);

  const ShmNumaNodes nodes_;
  ShmRounds& rounds_;
  const int size_;
  std::vector<const void*> parts_;
  alignas(64) std::array<char, 8192> sums_{};
  alignas(64) std::array<char, 8192> results_{};
};

}  // namespace ddp::internal
