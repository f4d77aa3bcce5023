// SPDX-License-Identifier: Apache-2.0
#include "launcher/signals.h"

#include <cerrno>
#include <sys/signalfd.h>

namespace ddprun::launcher {
namespace {

sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  for (const int signal : kForwardedSignals) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  return set;
}

}  // namespace

void take_signals() {
  const sigset_t set = taken_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a reader that is gone shows as EPIPE
  signal(SIGTTOU, SIG_IGN);  // the agent writes to the terminal from its own process group
}

Result<Fd> open_signal_fd() {
  const sigset_t set = taken_signals();
  Fd fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return os_error("cannot open a signalfd", errno);
  return fd;
}

int wait_for_signal() {
  const sigset_t set = taken_signals();
  for (;;) {
    const int signal = sigwaitinfo(&set, nullptr);
    if (signal > 0) return signal;
  }
}

}  // namespace ddprun::launcher
