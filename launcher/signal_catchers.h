// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>

// Signals for those that do something with them: the default action of most is to end the process.

namespace ddprun::launcher {

/// Whether the process of this text of /proc/PID/status has a handler for `signal`, or waits for
/// it as for a message (sigwait(3), signalfd(2)), for which it is blocked. Not if it catches
/// or blocks all signals, to end or to pass them on.
bool catches(const std::string& status, int signal);

/// Sends `signal` to the child `pid` of this process if it catches it, or else, as `pid` may be a
/// script that has started the program, to those of its descendants that do, but not to what these
/// have started. Nothing if `pid` is no child, or not any more. Returns whether any got it. Reads
/// /proc; for any thread.
bool signal_catchers(pid_t pid, int signal);

}  // namespace ddprun::launcher
