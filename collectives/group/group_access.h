// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ddp/process_group.h"

namespace ddp::internal {

/// Gives the rest of this library access to a ProcessGroup that users do not have.
struct GroupAccess {
  /// The rank's number in the first group, by which messages name it.
  static int named(const ProcessGroup& group, int rank);

  /// When this rank joined the group, in nanoseconds since 1970 by the clock of its host.
  static std::uint64_t formed(const ProcessGroup& group);

  /// The group's state, at an address that does not change when the group is moved.
  static GroupMember& member(ProcessGroup& group);
};

}  // namespace ddp::internal
