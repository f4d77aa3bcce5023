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

/// Collective tasks whose data is in memory that all ranks map, at the same place on each. Each
/// rank reads what it needs there. In an all_reduce each rank combines a share of all ranks' data,
/// and writes the result to all of them. In a reduce it shows the result to the root. In a
/// broadcast the root writes a part to each.
///
/// A round comes before, in which all ranks show where their data is; so the data is complete. A
/// round comes after, so that nobody reads or writes it any more; a reduce ends with a round in
/// which all have read the data. Both rounds order the accesses as they do those to slots, see
/// ShmSlot. Between two rounds no rank writes a byte that another reads or writes.
///
/// Thread: one at a time.
class ShmZeroCopy {
 public:
  ShmZeroCopy(const ShmHeap& heap, ShmRounds& rounds, int rank, int size);

  /// The places of this rank's data of a task: `in`, and `out` if others write it.
  struct Places {
    ShmPlace in;
    ShmPlace out;
    bool is_in_place = false;  ///< `in` is the beginning of `out`, which has a block for each rank

    /// Numbers that must be the same on all ranks; 0 if others do not reach the data.
    std::array<std::uint64_t, 2> numbers() const;
  };

  /// Whether a task gains by this; the same on all ranks.
  bool suits(const Task& task) const;

  Places find(const Task& task) const;

  /// Does this rank's part, if all ranks have the same numbers(); `exchange` does a round. Throws
  /// ShmStopped.
  void run(const Task& task, const Places& places, const std::function<void()>& exchange);

 private:
  /// A part of the data, in bytes.
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
