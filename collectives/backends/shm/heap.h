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

/// The place of this rank's data in a region, and of the other ranks' data at the same place. Keeps
/// the region mapped.
class ShmPlace {
 public:
  ShmPlace() = default;
  ShmPlace(std::shared_ptr<const ShmRegion> region, std::size_t at)
      : region_(std::move(region)), at_(at) {}

  /// The same number on all ranks whose data is at the same place; 0: in no region.
  std::uint64_t number() const;

  /// The address of the data of `rank`; below, the position of this rank's data in the memory.
  char* of(int rank) const;
  std::uint64_t position() const;

 private:
  std::shared_ptr<const ShmRegion> region_;
  std::size_t at_ = 0;
};

/// Memory for the data of programs, which the other ranks read and write where it is. It consists
/// of regions, which all ranks take together. Each rank has a part of every region, all of the same
/// size, and maps the parts of all.
///
/// Ranks only send each other numbers, and each compares them with its own. So no rank reads at a
/// place that another rank named.
///
/// Thread: one at a time, unless said otherwise. Any thread may release regions.
class ShmHeap {
 public:
  ShmHeap(const ShmArena& arena, int rank);

  /// Takes memory for this rank's part of the next region, so many zeros, and maps all parts; null
  /// if it may not have that. All ranks make the same call. No rank may use a part before all have:
  /// until then the part may be missing, and using it is SIGBUS.
  std::shared_ptr<ShmRegion> take(std::size_t bytes);

  /// Uses the region that was taken last, as all ranks have it. Returns this rank's part; when the
  /// last pointer to it goes, the part is unmapped and given back.
  std::shared_ptr<void> use(const std::shared_ptr<ShmRegion>& region);

  /// Whether there has ever been a region; the same on all ranks.
  bool is_used() const { return is_used_; }

  /// Finds the place of data of this rank.
  ShmPlace find(const void* data, std::size_t bytes) const;

  /// The position of this rank's data in the memory, for at() in another rank; 0: in no region.
  /// Thread: any.
  std::uint64_t position_of(const void* data, std::size_t bytes) const;

  /// Data of any rank, which stays mapped. Null if it is not all in one part of a region that is
  /// used here, whatever another rank claims. Thread: any.
  std::shared_ptr<const char> at(std::uint64_t position, std::size_t bytes) const;

 private:
  /// A region that is or was used. It is only looked at if data has an address in it.
  struct Known {
    std::uintptr_t begin;  ///< where this rank's part begins
    std::size_t bytes;
    std::weak_ptr<const ShmRegion> region;
  };

  const std::shared_ptr<const ddprun::Fd> memory_;
  const int ranks_;
  const int rank_;
  std::size_t next_;  ///< where the next region begins in the memory
  bool is_used_ = false;
  mutable std::mutex mutex_;  // protects known_
  std::vector<Known> known_;
};

}  // namespace ddp::internal
