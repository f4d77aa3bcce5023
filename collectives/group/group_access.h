// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/process_group.h"

namespace ddp::internal {

/// What the rest of this library may ask of a ProcessGroup, and its users may not.
struct GroupAccess {
  /// The rank's number in the first group, by which messages name it.
  static int named(const ProcessGroup& group, int rank);

  /// Breaks the group and aborts the calls under way, for a program that an exception makes leave
  /// in the middle of a backward pass.
  static void abort(ProcessGroup& group);
};

}  // namespace ddp::internal
