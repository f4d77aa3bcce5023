// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// The signals that ask ddprun to stop, unless the user names others; the workers get the same one.
/// The list and its order are torchrun's.
inline constexpr std::array kStopSignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

/// The signals that mean nothing to ddprun, unless the user names them, and are handed to each
/// worker: schedulers announce the end of an allocation with them.
inline constexpr std::array kForwardedSignals = {SIGUSR1, SIGUSR2};

/// The others that a user may name: what one process sends another, and would end it (signal(7)).
inline constexpr std::array kOtherSignals = {SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGXCPU};

/// Blocks all of these and SIGCHLD, so that they wait for whoever reads them, and ignores SIGPIPE
/// and SIGTTOU. From here on none of these ends this process. Workers start without either.
///
/// What was ignored at the start stays ignored, here and in the workers: nohup does it to SIGHUP,
/// shells without job control do it to SIGINT and SIGQUIT of what they run in the background.
/// SIGTERM, SIGCHLD, SIGUSR1 and SIGUSR2 do not.
void block_signals();

/// The signals that block_signals blocked, to be read from a signalfd(2), non-blocking.
/// Errors: system.
Result<Fd> open_signal_fd();

}  // namespace ddprun::launcher
