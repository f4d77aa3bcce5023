// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/backends/group_context.h"
#include "collectives/group/group_member.h"

namespace ddp::internal {

/// Which ranks of a group become a subgroup: `members[r]` is the rank in the group of rank r of the
/// subgroup. All of these are collective calls of the group.

/// `ranks`, which every rank must pass alike. Throws ddp::Error of kind usage (empty, twice the
/// same rank, no such rank) or mismatch, which breaks the group.
std::vector<int> check_members(GroupMember& group, std::span<const int> ranks);

/// The ranks that pass the same color, sorted by key, then rank. Empty: `color` is below 0.
std::vector<int> members_by_color(GroupMember& group, int color, int key);

/// The ranks that run on this rank's machine, in ascending order.
std::vector<int> members_by_node(GroupMember& group);

/// The context of a subgroup of the group of `parent`. `name` is the same on its members, and
/// no other subgroup's of that group. Nothing on a rank that is no member.
std::optional<GroupContext> subgroup_context(const GroupContext& parent, const std::string& name,
                                             const std::vector<int>& members);

}  // namespace ddp::internal
