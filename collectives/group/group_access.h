// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ddp/process_group.h"

namespace ddp::internal {

/// What the rest of this library may ask of a ProcessGroup, and its users may not.
struct GroupAccess {
  /// The rank's number in the first group, by which messages name it.
  static int named(const ProcessGroup& group, int rank);

  /// When this rank joined the group, in nanoseconds since 1970 by the clock of its host.
  static std::uint64_t formed(const ProcessGroup& group);

  /// Breaks the group and aborts the calls under way, for a program that an exception makes leave
  /// in the middle of a backward pass.
  static void abort(ProcessGroup& group);
};

}  // namespace ddp::internal
