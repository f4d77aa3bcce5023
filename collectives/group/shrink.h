// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "collectives/group/group_member.h"

namespace ddp::internal {

/// Makes this process a rank of the group without the ranks `excluded`, as ProcessGroup::shrink().
/// They take no part, so the others find each other through the store alone. Gives up `group`.
std::unique_ptr<GroupMember> shrink(GroupMember& group, std::span<const int> excluded);

}  // namespace ddp::internal
