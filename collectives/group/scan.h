// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/group/group_member.h"

namespace ddp::internal {

/// ProcessGroup::scan(), and exscan() if it `is_exclusive`: an all_gather, of which each rank
/// combines its part.
void scan(GroupMember& group, const ConstBuffer& in, const Buffer& out, ReduceOp op,
          bool is_exclusive);

}  // namespace ddp::internal
