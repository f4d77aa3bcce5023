// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/signals.h"

#include <cerrno>
#include <sys/signalfd.h>

namespace ddprun::launcher {

using namespace std::chrono_literals;

namespace {

sigset_t blocked_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  for (const int signal : kForwardedSignals) sigaddset(&set, signal);
  for (const int signal : kOtherSignals) sigaddset(&set, signal);
  for (const int signal : {SIGCHLD, SIGTSTP, SIGCONT, SIGWINCH}) sigaddset(&set, signal);
  return set;
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void raise_unblocked(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);  // the default action happens here
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

void block_signals() {
  sigset_t set = blocked_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  sigemptyset(&set);
  const auto stays_ignored = [&set](int signal) {
    if (signal != SIGTERM && is_ignored(signal)) sigaddset(&set, signal);
  };
  for (const int signal : kStopSignals) stays_ignored(signal);
  for (const int signal : kOtherSignals) stays_ignored(signal);
  stays_ignored(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &set,
              nullptr);      // a blocked signal would be pending even if it is ignored
  signal(SIGTERM, SIG_DFL);  // otherwise a scheduler could not end the job
  signal(SIGCHLD, SIG_DFL);  // if it were ignored, there would be no zombies to wait for
  signal(SIGPIPE, SIG_IGN);  // writing to a closed pipe fails with EPIPE instead
  signal(SIGTTOU, SIG_IGN);  // the agent writes to the terminal from its own process group
}

bool wait_for_child_signal(std::chrono::milliseconds limit) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  const timespec time = {seconds.count(), static_cast<long>((limit - seconds) / 1ns)};
  return sigtimedwait(&set, nullptr, &time) == SIGCHLD;
}

void stop_this_process() {
  sigset_t pending;
  sigpending(&pending);
  // SIGTSTP removes pending SIGCONTs, so a pending one came later.
  if (sigismember(&pending, SIGCONT) == 0) raise_unblocked(SIGTSTP);
}

void die_by(int signal) {
  raise_unblocked(signal);
}

Result<Fd> open_signal_fd() {
  const sigset_t set = blocked_signals();
  Fd fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return os_error("cannot open a signalfd", errno);
  return fd;
}

}  // namespace ddprun::launcher
