// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/fd.h"
#include "launcher/process/signal_targets.h"

// Signals for those that do something with them: the default action of most is to end the process.

namespace ddprun::launcher {

/// Whether the process of this text of /proc/PID/status has a handler for `signal`, or waits for
/// it as for a message (sigwait(3), signalfd(2)), for which it is blocked. Not if it catches
/// or blocks all signals, to end or to pass them on.
bool catches(const std::string& status, int signal);

/// Sends one signal to several workers, each time to the processes that signal_targets() chooses.
/// Reads /proc, where nothing waits for a disk, and at most once for all processes of the host. For
/// any thread.
class SignalCatchers {
 public:
  struct Process {
    pid_t pid;
    Fd pidfd;
  };

  SignalCatchers(int signal, SignalUse use) : signal_(signal), use_(use) {}

  /// Signals the child `worker` or what it has started. Returns the processes that got the signal:
  /// none if `worker` is no child, or not any more.
  std::vector<Process> send(pid_t worker);

 private:
  std::vector<pid_t> children_of(pid_t parent);

  int signal_;
  SignalUse use_;
  std::optional<std::multimap<pid_t, pid_t>> children_;  // of each process; nullopt: not read
};

/// Sends a notice to all `workers`, which are children. Returns those of which a process got it.
std::vector<pid_t> send_notice(const std::vector<pid_t>& workers, int signal);

/// The same with a signal that this process got: so does a worker that catches all signals, if none
/// of its processes gets it, as it may expect this one (docker run, a bash that has used read -t).
std::vector<pid_t> forward_signal(const std::vector<pid_t>& workers, int signal);

}  // namespace ddprun::launcher
