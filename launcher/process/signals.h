// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <csignal>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// The signals that stop the job by default; workers get the same signal. The list and its order
/// are torchrun's.
inline constexpr std::array kStopSignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

/// Signals that are forwarded to each worker and do not stop the job by default. Schedulers
/// announce the end of an allocation with them.
inline constexpr std::array kForwardedSignals = {SIGUSR1, SIGUSR2};

/// Other signals that --signals_to_handle accepts: processes send them, and they end a process by
/// default (signal(7)).
inline constexpr std::array kOtherSignals = {SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGXCPU};

/// Blocks all of these, SIGCHLD, SIGTSTP, SIGCONT and SIGWINCH, to be read from open_signal_fd, and
/// ignores SIGPIPE and SIGTTOU. None of these then ends or stops this process. `spawn` undoes both
/// for the workers.
/// A signal that was ignored at the start stays ignored, here and in the workers, except SIGTERM,
/// SIGCHLD, SIGUSR1 and SIGUSR2. nohup ignores SIGHUP, and shells without job control ignore SIGINT
/// and SIGQUIT in background commands.
void block_signals();

/// Waits for a SIGCHLD and takes it. False: none came within `limit`.
bool wait_for_child_signal(std::chrono::milliseconds limit);

/// Stops this process as Ctrl-Z does, until it is continued. Does nothing in an orphaned process
/// group, which no shell would continue, or if SIGCONT came after the last SIGTSTP. Call
/// block_signals before.
void stop_this_process();

/// Ends this process by `signal`'s default action. Returns if the signal is ignored.
void die_by(int signal);

/// A non-blocking signalfd(2) for the signals that block_signals blocked. Errors: system.
Result<Fd> open_signal_fd();

}  // namespace ddprun::launcher
