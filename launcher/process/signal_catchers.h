// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/fd.h"
#include "launcher/process/signal_targets.h"

// Signals only for processes that use them: most signals end a process by default.

namespace ddprun::launcher {

/// Whether the process of this text of /proc/PID/status has a handler for `signal`, or blocks it to
/// wait for it as for a message (sigwait(3), signalfd(2)). False if it catches or blocks all
/// signals, to end or to pass them on.
bool catches(const std::string& status, int signal);

/// Sends one signal to several workers, each time to the processes that signal_targets() chooses.
/// Reads /proc, which never waits for a disk, and all processes of the host at most once. For any
/// thread.
class SignalCatchers {
 public:
  struct Process {
    pid_t pid;
    Fd pidfd;
  };

  SignalCatchers(int signal, SignalUse use) : signal_(signal), use_(use) {}

  /// Signals the child `worker` or its descendants. Returns the processes that got the signal; none
  /// if `worker` is not, or no longer, a child.
  std::vector<Process> send(pid_t worker);

 private:
  std::vector<pid_t> children_of(pid_t parent);

  int signal_;
  SignalUse use_;
  std::optional<std::multimap<pid_t, pid_t>> children_;  // of each process; nullopt: not read yet
};

/// Sends a notice to all `workers`, which are children. Returns those with a process that got it.
std::vector<pid_t> send_notice(const std::vector<pid_t>& workers, int signal);

/// The same for a signal that this process got. If no process of a worker gets it, the worker does
/// if it catches all signals: it may expect this one (docker run, a bash that has used read -t).
std::vector<pid_t> forward_signal(const std::vector<pid_t>& workers, int signal);

}  // namespace ddprun::launcher
