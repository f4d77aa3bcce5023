// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// The signals that ask ddprun to stop; the workers get the same one.
inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/// The signals that mean nothing to ddprun and are handed to each worker: schedulers announce the
/// end of an allocation with them.
inline constexpr std::array kForwardedSignals = {SIGUSR1, SIGUSR2};

/// Blocks all of these and SIGCHLD, so that they wait for whoever reads them, and ignores SIGPIPE
/// and SIGTTOU. From here on none of these ends this process. Workers start without either.
///
/// SIGHUP, SIGINT and SIGQUIT stay ignored, here and in the workers, where they were at the start:
/// by nohup, and by shells without job control for what they run in the background.
void take_signals();

/// The signals that take_signals blocked, to be read from a signalfd(2), non-blocking.
/// Errors: system.
Result<Fd> open_signal_fd();

}  // namespace ddprun::launcher
