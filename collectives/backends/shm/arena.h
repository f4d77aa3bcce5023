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

/// Whether this process may make a file of so many bytes: else the kernel does not only refuse, it
/// also sends SIGXFSZ.
bool may_file_be(std::size_t bytes);

/// Of a page of memory; the least multiple of `to` that is not below `bytes`.
std::size_t page_size();
std::size_t round_up(std::size_t bytes, std::size_t to);

/// Memory and swap that this host has left, as /proc/meminfo estimates it; else the greatest
/// number.
std::size_t available_memory();

/// Takes pages for a part of the memory; false if there are none, or fewer left than that. Touching
/// those that the kernel turns out not to have would end this process by SIGBUS.
bool take_memory(const ddprun::Fd& memory, off_t begin, std::size_t bytes);

/// Memory that processes share: the slots of their rounds, behind them room for a ring from each
/// member to each other, which is taken when the two use it, and then what ShmHeap takes. It
/// has no name: the kernel frees it when the last process that maps it has ended, however that
/// ends.
class ShmArena {
 public:
  /// Memory for `ranks` members, all zero, which cannot be made smaller any more; empty if this
  /// process may not have it.
  static ddprun::Fd create(int ranks);

  /// Maps what another process created, and takes the memory of `rank`; nullopt if that cannot be
  /// done, or is not such memory.
  static std::optional<ShmArena> map(ddprun::Fd memory, int ranks, int rank);

  ShmArena(ShmArena&& other) noexcept
      : memory_(std::move(other.memory_)),
        members_(std::exchange(other.members_, nullptr)),
        ranks_(other.ranks_) {}
  ShmArena& operator=(ShmArena&&) = delete;
  ~ShmArena();

  /// By rank.
  ShmMember* members() const { return members_; }
  int ranks() const { return ranks_; }

  /// The rest of the memory, from bytes() on, is for others to take and map.
  const std::shared_ptr<const ddprun::Fd>& memory() const { return memory_; }
  std::size_t bytes() const;

  /// Whether there is a CPU for every rank, of those that any of them may use.
  bool has_cpu_for_each() const;

  /// Where the ring from one member to another begins.
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
