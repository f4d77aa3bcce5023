// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/group/group_member.h"

namespace ddp::internal {

/// The ranks of a group that become a subgroup: `members[r]`, a rank of the group, becomes rank r
/// of the subgroup. All of these are collective calls of the group.

/// Returns `ranks`, which every rank must pass alike. Throws ddp::Error of kind usage (empty, twice
/// the same rank, no such rank) or mismatch, which breaks the group.
std::vector<int> check_members(GroupMember& group, std::span<const int> ranks);

/// Returns the ranks that pass the same color, by key, then rank; none if `color` is below 0.
std::vector<int> members_by_color(GroupMember& group, int color, int key);

/// Returns the ranks that run on this rank's machine, in ascending order.
std::vector<int> members_by_node(GroupMember& group);

/// Returns the context of a subgroup of the group of `parent`; nothing on a rank that is no member.
/// `name` is the same on its members, and differs from those of the group's other subgroups.
std::optional<GroupContext> subgroup_context(const GroupContext& parent, const std::string& name,
                                             const std::vector<int>& members);

}  // namespace ddp::internal
