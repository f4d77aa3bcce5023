// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "collectives/group/group_member.h"
#include "ddp/communication_hook.h"
#include "ddp/error.h"

namespace ddp::internal {

[[noreturn]] inline void refuse_hook(const GroupMember& group, const std::string& what) {
  const int rank = group.context.named(group.context.rank);
  throw Error(ErrorKind::usage, "ddp: rank " + std::to_string(rank) + ": " + what);
}

/// Refuses gradients on a device; `name` is the hook's.
inline void check_on_host(const GroupMember& group, const GradientBucket& bucket,
                          const char* name) {
  if (!bucket.memory.on_device) return;
  refuse_hook(group, std::string(name) +
                         " of gradients on a device: it works in host memory; a hook of the "
                         "program may use the device");
}

}  // namespace ddp::internal
