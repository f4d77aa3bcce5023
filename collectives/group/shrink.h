// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collectives/group/group_member.h"

namespace ddp::internal {

/// Makes this process a rank of the group without the ranks `excluded`, as ProcessGroup::shrink().
/// They take no part, so the others find each other through the store alone. Gives up `group`.
std::unique_ptr<GroupMember> shrink(GroupMember& group, std::span<const int> excluded);

/// The ranks of `group` that its failure, on which all have agreed, names as lost, as numbers of
/// this group. Throws ddp::Error of kind usage if it names none.
std::vector<int> lost_ranks(const GroupMember& group);

}  // namespace ddp::internal
