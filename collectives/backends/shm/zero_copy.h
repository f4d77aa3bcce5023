// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/rounds.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Collective tasks whose data is in memory that all ranks map, at the same place of it: each rank
/// reads what it needs from there. For an all_reduce each combines a share of the data of all
/// ranks, and writes the result to all of them, or, for a reduce, shows it to the root; for a
/// broadcast the root writes a part to each.
///
/// A round comes before, in which all ranks show where their data is: so it is complete. A round
/// comes after, so that nobody reads or writes it any more, but for a reduce, which ends with one
/// in which all have read the data: both order the accesses as those to
/// slots, see ShmSlot. Between two rounds no byte is written by one rank and read or written by
/// another.
///
/// Thread: one at a time.
class ShmZeroCopy {
 public:
  ShmZeroCopy(const ShmHeap& heap, ShmRounds& rounds, int rank, int size);

  /// Where this rank has the data of a task: `in`, and `out` if others write it.
  struct Places {
    ShmPlace in;
    ShmPlace out;
    bool is_in_place = false;  ///< `in` is the beginning of `out`, which has a block for each rank

    /// What all ranks have to have alike; 0 if others do not reach the data.
    std::array<std::uint64_t, 2> numbers() const;
  };

  /// Whether such a task gains by it; the same on all ranks.
  bool suits(const Task& task) const;

  Places find(const Task& task) const;

  /// Does this rank's part, when all ranks have the same numbers(); `exchange` does a round. Throws
  /// ShmStopped.
  void run(const Task& task, const Places& places, const std::function<void()>& exchange);

 private:
  /// Bytes of the data.
  struct Share {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Share share_of(int rank, std::size_t total) const;
  void all_reduce(const Task& task, const Places& places);
  void reduce(const Task& task, const ShmPlace& in, const std::function<void()>& exchange);
  void reduce_scatter(const Task& task, const ShmPlace& in);
  void combine_to(char* to, const Task& task, const ShmPlace& in, Share part, std::size_t whole);
  const char* combine(const Task& task, const ShmPlace& in, std::size_t at, std::size_t bytes);
  void broadcast(const Task& task, const Places& places) const;
  void fetch(const Task& task, const Places& places) const;
  void copy(char* to, const char* from, std::size_t bytes, std::size_t whole) const;

  const ShmHeap& heap_;
  ShmRounds& rounds_;
  const int rank_;
  const int size_;
  std::vector<const void*> parts_;
  alignas(64) std::array<char, 8192> results_{};
};

}  // namespace ddp::internal
