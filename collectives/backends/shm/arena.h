// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <sys/types.h>
#include <utility>

#include "base/fd.h"
#include "collectives/backends/shm/layout.h"

namespace ddp::internal {

/// Whether this process may make a file of so many bytes. If it may not, trying would not only
/// fail: the kernel would also send SIGXFSZ.
bool may_file_be(std::size_t bytes);

/// The size of a page of memory; the least multiple of `to` that is not below `bytes`.
std::size_t page_size();
std::size_t round_up(std::size_t bytes, std::size_t to);

/// The memory and swap that this host has left, as /proc/meminfo estimates it; else the maximum.
std::size_t available_memory();

/// Takes pages for a part of the memory. Returns false if there are none, or fewer left than that:
/// the process would end by SIGBUS when it touches pages that the kernel does not have.
bool take_memory(const ddprun::Fd& memory, off_t begin, std::size_t bytes);

/// Memory that processes share: the slots of their rounds, then room for a ring from each member to
/// each other, which the two take when they use it, then the memory of ShmHeap. It has no name: the
/// kernel frees it when the last process that maps it ends, however it ends.
class ShmArena {
 public:
  /// Creates memory for `ranks` members, all zero, which can never be made smaller; empty if this
  /// process may not have it.
  static ddprun::Fd create(int ranks);

  /// Maps what another process created, and takes the memory of `rank`; nullopt if that fails, or
  /// it is not such memory.
  static std::optional<ShmArena> map(ddprun::Fd memory, int ranks, int rank);

  ShmArena(ShmArena&& other) noexcept
      : memory_(std::move(other.memory_)),
        members_(std::exchange(other.members_, nullptr)),
        ranks_(other.ranks_) {}
  ShmArena& operator=(ShmArena&&) = delete;
  ~ShmArena();

  /// The members by rank.
  ShmMember* members() const { return members_; }
  int ranks() const { return ranks_; }

  /// The memory; others may take and map the rest of it, from bytes() on.
  const std::shared_ptr<const ddprun::Fd>& memory() const { return memory_; }
  std::size_t bytes() const;

  /// Whether there is a CPU for every rank, among those that any of them may use.
  bool has_cpu_for_each() const;

  /// The position of the ring from one member to another.
  std::size_t ring_at(int from, int to) const;

 private:
  ShmArena(ddprun::Fd memory, ShmMember* members, int ranks)
      : memory_(std::make_shared<const ddprun::Fd>(std::move(memory))),
        members_(members),
        ranks_(ranks) {}

  std::shared_ptr<const ddprun::Fd> memory_;
  ShmMember* members_;
  int ranks_;
};

}  // namespace ddp::internal
