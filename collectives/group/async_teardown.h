// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "collectives/backends/backend.h"
#include "collectives/failure/group_calls.h"

namespace ddp::internal {

/// Leaves a group in a thread of its own and closes its connections after: ranks may leave their
/// groups in different orders, so none of them may wait in one before it leaves the next. The
/// process ends only when all is left.
void leave_async(std::unique_ptr<Backend> backend, std::shared_ptr<GroupCalls> calls);

/// Waits until every group that was given to leave_async is left.
void finish_leaving();

/// Has `last` called when the process ends, once all groups are left.
void after_leaving(std::function<void()> last);

}  // namespace ddp::internal
