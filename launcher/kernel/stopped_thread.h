// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
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

/// Why this process may not read the memory and stack of `pid`, as text without a full stop; empty:
/// it may, or `pid` has ended. Reads nothing of it.
std::string trace_refusal(pid_t pid);

/// The facts that decide that.
struct TraceFacts {
  bool may_read_memory = true;  ///< the kernel lets process_vm_readv(2) through
  bool may_open_memory = true;  ///< /proc/PID/mem opens; no filter of calls concerns it
  std::optional<std::int64_t> yama_scope = {};  ///< kernel.yama.ptrace_scope; nullopt: no Yama
  bool has_filter = false;                      ///< seccomp filters this process's calls
  bool same_user = true;
};

/// The reason as text; empty: it may.
std::string trace_refusal_text(const TraceFacts& facts);

}  // namespace ddprun::launcher
