// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <sys/types.h>
#include <utility>

#include "base/error.h"

namespace ddprun::launcher {

/// Holds a thread of another process still by ptrace(2), as a debugger does. The destructor lets it
/// run; so does the kernel if this process dies in any way. Hence PTRACE_SEIZE: PTRACE_ATTACH would
/// stop it by a signal that stays. A thread that a signal had stopped before stays stopped.
///
/// This process must have blocked SIGCHLD. Only the thread that called stop() may use the object.
class StoppedThread {
 public:
  /// Errors: system (refused, or the thread has ended), timed_out (it does not stop, for instance
  /// in uninterruptible sleep).
  static Result<StoppedThread> stop(pid_t tid, std::chrono::milliseconds limit);

  StoppedThread(StoppedThread&& other) noexcept
      : tid_(std::exchange(other.tid_, 0)), signal_(other.signal_) {}
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();

 private:
  explicit StoppedThread(pid_t tid) : tid_(tid) {}

  pid_t tid_;       // 0: no thread
  int signal_ = 0;  // pending when it was stopped; delivered at the end
};

}  // namespace ddprun::launcher
