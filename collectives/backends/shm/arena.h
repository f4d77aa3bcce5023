// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "collectives/backends/shm/layout.h"

namespace ddp::internal {

/// Memory that processes share. It has no name: the kernel frees it when the last process that maps
/// it has ended, however that ends.
class ShmArena {
 public:
  /// Memory for `ranks` members, all zero, which cannot be made smaller or larger any more; empty
  /// if this process may not have it.
  static ddprun::Fd create(int ranks);

  /// Maps what another process created, and takes the memory of `rank`; nullopt if that cannot be
  /// done, or is not such memory.
  static std::optional<ShmArena> map(const ddprun::Fd& memory, int ranks, int rank);

  ShmArena(ShmArena&& other) noexcept
      : members_(std::exchange(other.members_, nullptr)), ranks_(other.ranks_) {}
  ShmArena& operator=(ShmArena&&) = delete;
  ~ShmArena();

  /// By rank.
  ShmMember* members() const { return members_; }
  int ranks() const { return ranks_; }

 private:
  ShmArena(ShmMember* members, int ranks) : members_(members), ranks_(ranks) {}

  ShmMember* members_;
  int ranks_;
};

}  // namespace ddp::internal
