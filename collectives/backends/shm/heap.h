// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "collectives/backends/shm/arena.h"

namespace ddp::internal {

class ShmRegion;

/// Where data of this rank is in a region, and where the other ranks have theirs at the same place.
/// Keeps the region mapped.
class ShmPlace {
 public:
  ShmPlace() = default;
  ShmPlace(std::shared_ptr<const ShmRegion> region, std::size_t at)
      : region_(std::move(region)), at_(at) {}

  /// The same number on all ranks whose data is at the same place; 0: in no region.
  std::uint64_t number() const;

  /// Where `rank` has it; where this rank has it in the memory.
  char* of(int rank) const;
  std::uint64_t position() const;

 private:
  std::shared_ptr<const ShmRegion> region_;
  std::size_t at_ = 0;
};

/// Memory in which programs have their data, so that the other ranks read and write it where it is.
/// It consists of regions, which all ranks take together: each has a part of every region, of the
/// same size, and maps the parts of all.
///
/// Ranks tell each other numbers only, and each compares them with its own: nothing is read at a
/// place that another rank named.
///
/// Thread: one at a time, unless said. Regions may be released in any.
class ShmHeap {
 public:
  ShmHeap(const ShmArena& arena, int rank);

  /// Takes memory for this rank's part of the next region, of so many zeros, and maps its place of
  /// all parts; null if it may not have that. All ranks call it alike, and no part is used
  /// before all of them have: until then it may be missing, which is SIGBUS.
  std::shared_ptr<ShmRegion> take(std::size_t bytes);

  /// The region that was taken last is used from now on, as all ranks have it: returns this rank's
  /// part, which the last pointer to it unmaps and gives back.
  std::shared_ptr<void> use(const std::shared_ptr<ShmRegion>& region);

  /// Whether there has ever been a region, which is the same on all ranks.
  bool is_used() const { return is_used_; }

  /// Of data of this rank.
  ShmPlace find(const void* data, std::size_t bytes) const;

  /// Where data of this rank is in the memory, for at() in another rank; 0: in no region.
  /// Thread: any.
  std::uint64_t position_of(const void* data, std::size_t bytes) const;

  /// Data of any rank, which stays mapped; null if not all of it is in one's part of a region that
  /// is used here, whatever another rank claims. Thread: any.
  std::shared_ptr<const char> at(std::uint64_t position, std::size_t bytes) const;

 private:
  /// A region that is used, or was: it is looked at only if data is in its addresses.
  struct Known {
    std::uintptr_t begin;  ///< of this rank's part
    std::size_t bytes;
    std::weak_ptr<const ShmRegion> region;
  };

  const std::shared_ptr<const ddprun::Fd> memory_;
  const int ranks_;
  const int rank_;
  std::size_t next_;  ///< where the next region begins in the memory
  bool is_used_ = false;
  mutable std::mutex mutex_;  // of known_
  std::vector<Known> known_;
};

}  // namespace ddp::internal
