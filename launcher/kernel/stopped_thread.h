// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <sys/types.h>
#include <utility>

#include "base/error.h"

namespace ddprun::launcher {

/// Holds a thread of another process still by ptrace(2), as a debugger does. It goes on when this
/// object is destroyed, and also when this process dies in any way: hence PTRACE_SEIZE, as
/// PTRACE_ATTACH would stop it by a signal that stays. One that a signal had stopped before stays
/// stopped.
///
/// For a process that has blocked SIGCHLD. Only its calling thread may use the stopped one.
class StoppedThread {
 public:
  /// Errors: system: refused, or it has ended; timed_out: it does not stop, as in uninterruptible
  /// sleep.
  static Result<StoppedThread> stop(pid_t tid, std::chrono::milliseconds limit);

  StoppedThread(StoppedThread&& other) noexcept
      : tid_(std::exchange(other.tid_, 0)), signal_(other.signal_) {}
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();

 private:
  explicit StoppedThread(pid_t tid) : tid_(tid) {}

  pid_t tid_;       // 0: none
  int signal_ = 0;  // that it was about to get, and still has to
};

}  // namespace ddprun::launcher
