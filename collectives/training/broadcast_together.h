// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "ddp/types.h"

namespace ddp::internal {

struct GroupMember;

/// Gives every rank the buffers of `root`. Buffers in host memory that are shorter than 1 MiB are
/// sent together, up to 25 MiB in one call, as a call costs more than their copies. NCCL begins
/// those on a device together. Every rank passes buffers of the same types and lengths.
void broadcast_together(GroupMember& group, std::span<const Buffer> buffers, int root);

}  // namespace ddp::internal
