// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/group_access.h"

#include "collectives/group/group_member.h"

namespace ddp::internal {

int GroupAccess::named(const ProcessGroup& group, int rank) {
  return group.member_->context.named(rank);
}

std::uint64_t GroupAccess::formed(const ProcessGroup& group) {
  const auto since_1970 = group.member_->formed.time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(since_1970).count());
}

GroupMember& GroupAccess::member(ProcessGroup& group) {
  return *group.member_;
}

}  // namespace ddp::internal
