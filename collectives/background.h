// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace ddp::internal {

/// Work that goes on beside the program, and that the process does not end before: groups that are
/// left, what follows a call, files that are written. Each has a thread of its own, as one may wait
/// for another rank that waits for the next.
///
/// Thread: any.

/// Runs `work`, which must not throw, in a new thread; in this one if there is none to be had, as
/// other ranks may wait for it. If `work` itself ends the process, by exit(), `abandon` is called:
/// what it was to complete never will be. If the process exits with another code than 0, `give_up`
/// is called, in another thread: `work` is to end soon.
void run_in_background(
    std::function<void()> work, std::function<void()> abandon = [] {},
    std::function<void()> give_up = [] {});

/// Whether this thread runs such work; whether some of it ends the process.
bool is_in_background();
bool ends_from_background();

/// Whether the process exits with another code than 0, and work was told to give up.
bool is_given_up();

/// Blocks until all work that was begun has ended.
void finish_background();

/// Calls `last` when the process exits, after all of that: for libraries that may be shut down only
/// when no group uses them.
void after_background(std::function<void()> last);

}  // namespace ddp::internal
