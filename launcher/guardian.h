// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/error.h"

namespace ddprun::launcher {

/// Forks, and runs `agent` in the child; gives the exit code to end with, in both processes.
///
/// The two guard each other. The parent, the guardian, is what the user sees: it forwards signals,
/// waits, and hands on the agent's exit code. Both are child subreapers, so all that the agent
/// started becomes the guardian's if the agent dies, whatever killed it: the guardian kills it
/// all and reaps it. If the guardian dies first, the agent gets SIGTERM from the kernel, and sees
/// by `guardian_is_gone` why.
///
/// The agent has a process group of its own, so that a terminal's Ctrl-C reaches it once, through
/// the guardian. Call block_signals before. Errors: system (no second process could be made).
Result<int> guard(const std::function<int()>& agent);

/// In the agent: unless this is called again before `until`, and `grace` has passed after it, the
/// guardian kills the agent and all that it started: an agent that stands still cannot do so itself
/// when it must. The grace is for a host that stood still as a whole.
void arm_liveness_timer(std::chrono::steady_clock::time_point until,
                        std::chrono::milliseconds grace);

/// In the agent: takes the liveness_timer back.
void disarm_liveness_timer();

/// In the agent: whether the guardian has died.
bool guardian_is_gone();

/// In the agent: should it end before it takes this back with an empty `path`, the guardian removes
/// this directory with all that is in it. An absolute path; one longer than PATH_MAX is not taken.
void leave_to_guardian(const std::string& path);

/// Removes a directory with all that is in it, as far as that can be done.
void remove_directory(const std::string& path);

}  // namespace ddprun::launcher
