// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace ddp::internal {

/// Work that runs beside the program, and that the process waits for before it ends: groups that
/// are left, functions that follow a call, files that are written. Each has a thread of its own, as
/// one may wait for another rank that waits for the next.
///
/// Thread: any.

/// Runs `work`, which must not throw, in a new thread. If none can be made, runs it in this one, as
/// other ranks may wait for it. If `work` itself ends the process, by exit(), it is never
/// completed, and `abandon` is called. If the process exits with another code than 0, another
/// thread calls `give_up`: `work` is to end soon.
void run_in_background(
    std::function<void()> work, std::function<void()> abandon = [] {},
    std::function<void()> give_up = [] {});

/// Whether this thread runs such work; whether some of it ends the process.
bool is_in_background();
bool ends_from_background();

/// Whether the process exits with another code than 0, and has called give_up.
bool is_given_up();

/// Blocks until all work that was begun has ended.
void finish_background();

/// Calls `last` when the process exits, after all of that work: for libraries that may be shut down
/// only when no group uses them.
void after_background(std::function<void()> last);

}  // namespace ddp::internal
