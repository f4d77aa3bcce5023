// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/stopped_thread.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>
#include <sys/ptrace.h>
#include <sys/wait.h>

namespace ddprun::launcher {
namespace {

using StopClock = std::chrono::steady_clock;

/// A killed process ends sooner than this, unless it is busy in the kernel.
constexpr std::chrono::milliseconds kTimeToEnd{100};

/// The stop is for a pending signal (which is returned), for us, or an earlier job-control stop.
int undelivered_signal(int status) {
  return status >> 16 == 0 ? WSTOPSIG(status) : 0;
}

/// Waits for SIGCHLD, which announces each change of the thread. False: not in time.
bool wait_for_signal(StopClock::time_point deadline) {
  const auto left = deadline - StopClock::now();
  if (left.count() <= 0) return false;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec time = {seconds.count(), static_cast<long>((left - seconds).count())};
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  return sigtimedwait(&child, nullptr, &time) == SIGCHLD || errno == EINTR;
}

}  // namespace

Result<StoppedThread> StoppedThread::stop(pid_t tid, std::chrono::milliseconds limit) {
  const std::string what = "cannot stop process " + std::to_string(tid);
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return os_error(what, errno);
  StoppedThread thread(tid);
  if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return os_error(what, errno);
  const auto deadline = StopClock::now() + limit;
  for (;;) {
    int status = 0;
    const pid_t changed = waitpid(tid, &status, __WALL | WNOHANG);
    if (changed < 0) return os_error(what, errno);
    if (changed == tid && !WIFSTOPPED(status)) return os_error(what, ESRCH);
    if (changed == tid) {
      thread.signal_ = undelivered_signal(status);
      return thread;
    }
    if (!wait_for_signal(deadline)) return Error{Errc::timed_out, what + ": it does not react"};
  }
}

StoppedThread::~StoppedThread() {
  if (tid_ == 0 || ptrace(PTRACE_DETACH, tid_, nullptr, static_cast<long>(signal_)) == 0) return;
  // It was killed, or has not stopped yet. Its parent sees its end only after its tracer has. If it
  // does neither in time, the kernel lets it go when this process ends.
  const auto deadline = StopClock::now() + kTimeToEnd;
  int status = 0;
  pid_t changed = waitpid(tid_, &status, __WALL | WNOHANG);
  while (changed == 0 && wait_for_signal(deadline)) {
    changed = waitpid(tid_, &status, __WALL | WNOHANG);
  }
  if (changed != tid_ || !WIFSTOPPED(status)) return;
  ptrace(PTRACE_DETACH, tid_, nullptr, static_cast<long>(undelivered_signal(status)));
}

}  // namespace ddprun::launcher
