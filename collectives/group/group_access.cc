// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/group_access.h"

#include <string>

#include "collectives/group/process_group_impl.h"

namespace ddp::internal {

int GroupAccess::named(const ProcessGroup& group, int rank) {
  return group.impl_->context.named(rank);
}

Error GroupAccess::fail(ProcessGroup& group, const Error& error) {
  return group.impl_->calls->fail(error);
}

void GroupAccess::abort(ProcessGroup& group) {
  fail(group,
       Error(ErrorKind::system, "ddp: rank " + std::to_string(named(group, group.rank())) +
                                    ": the group was given up in the middle of a backward pass"));
  group.impl_->backend->abort();
}

}  // namespace ddp::internal
