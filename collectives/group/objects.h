// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/group/group_member.h"

namespace ddp::internal {

/// Collective calls on byte strings whose lengths may differ between ranks, made of calls on
/// arrays: first the lengths are exchanged, then the bytes. See the calls of the same names of
/// ProcessGroup.
void broadcast_object(GroupMember& group, std::string& object, int root);
std::vector<std::string> gather_object(GroupMember& group, std::string_view object, int root);
std::vector<std::string> all_gather_object(GroupMember& group, std::string_view object);

}  // namespace ddp::internal
