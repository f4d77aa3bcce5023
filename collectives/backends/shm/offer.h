// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace ddp::internal {

/// The network namespace of this thread, as a number. 0: not known.
std::uint64_t network_namespace();

/// A process's memory that others of its user may map: the memfd's place among the process's open
/// files. The kernel lets only processes that may trace this one open it there (proc(5)), so there
/// is no socket that anybody could reach. Sent as it lies in memory, without padding.
struct ShmOffer {
  std::int32_t process = 0;  ///< its number in its PID namespace; 0: there is no memory
  std::int32_t descriptor = -1;
  std::uint64_t inode = 0;
  std::uint32_t device = 0;
  std::uint32_t user = 0;
};
static_assert(sizeof(ShmOffer) == 24);

/// Offers `memory` while it is open here.
ShmOffer offer_of(const ddprun::Fd& memory);

/// Opens the memory. Empty if this process may not, the memory is another user's, or its process is
/// in another PID namespace.
ddprun::Fd open_offer(const ShmOffer& offer);

}  // namespace ddp::internal
