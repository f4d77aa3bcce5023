// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace ddp::internal {

/// Groups that are left in the background. Ranks may leave their groups in different orders, so a
/// rank that blocked in one before it leaves the next could deadlock: each group is left in a
/// thread of its own, and the process does not end before all of these threads have.
///
/// Thread: any.

/// Runs `leave`, which must not throw, in a new thread.
void teardown_async(std::function<void()> leave);

/// Blocks until every teardown that was started has ended.
void finish_teardowns();

/// Calls `last` when the process exits, after the last teardown: for libraries that may be shut
/// down only when no group uses them.
void after_teardowns(std::function<void()> last);

}  // namespace ddp::internal
