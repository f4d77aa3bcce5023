// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/stopped_thread.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file_text.h"
#include "launcher/kernel/process_sample.h"

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

namespace {

/// The kernel checks the right before it looks at the address, where nothing is.
bool may_read_memory(pid_t pid) {
  char byte = 0;
  const iovec here = {&byte, 1};
  const iovec there = {reinterpret_cast<void*>(1), 1};
  return process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || (errno != EPERM && errno != ENOSYS);
}

bool may_open_memory(pid_t pid) {
  const Fd memory(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  return memory || (errno != EACCES && errno != EPERM);
}

bool has_filter() {
  return proc_value(file_text("/proc/self/status"), "Seccomp") == "2";
}

bool is_of_same_user(pid_t pid) {
  const std::string status = proc_text(pid, "status");
  const std::string users = "\t" + std::string(proc_value(status, "Uid")) + "\t";
  return users == "\t\t" || users.find("\t" + std::to_string(geteuid()) + "\t") != users.npos;
}

}  // namespace

std::string trace_refusal(pid_t pid) {
  const TraceFacts facts = {.may_read_memory = may_read_memory(pid),
                            .may_open_memory = may_open_memory(pid),
                            .yama_scope = file_number("/proc/sys/kernel/yama/ptrace_scope"),
                            .has_filter = has_filter(),
                            .same_user = is_of_same_user(pid)};
  return trace_refusal_text(facts);
}

std::string trace_refusal_text(const TraceFacts& facts) {
  if (facts.may_read_memory) return "";
  if (facts.may_open_memory && facts.has_filter) {
    return "a seccomp filter, such as a container's, refuses it: allow ptrace and "
           "process_vm_readv (docker run --cap-add SYS_PTRACE)";
  }
  if (!facts.same_user) return "it runs as another user";
  const std::int64_t scope = facts.yama_scope.value_or(0);
  if (scope >= 3) return "kernel.yama.ptrace_scope is 3: no process may until the next boot";
  if (scope == 2) return "kernel.yama.ptrace_scope is 2: only root may (CAP_SYS_PTRACE)";
  return "the kernel refuses it: the process has other rights (setuid, or not dumpable)";
}

}  // namespace ddprun::launcher
