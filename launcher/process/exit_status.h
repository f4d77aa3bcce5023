// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::launcher {

/// How a process ended. All decoding of a wait(2) status is here.
class ExitStatus {
 public:
  /// `wait_status` comes from wait(2), for a process that has ended.
  explicit ExitStatus(int wait_status) : wait_status_(wait_status) {}

  bool success() const;

  /// The code that a shell reports: the exit code, or 128 + the signal's number.
  int code() const;

  /// The signal that killed it; 0 if it exited.
  int signal() const;

  /// "exit 3", "killed by SIGSEGV" or "killed by SIGABRT (core dumped)".
  std::string text() const;

  int wait_status() const { return wait_status_; }

 private:
  int wait_status_;
};

/// "SIGTERM" for 15, "SIGRTMIN+2" for a real-time signal, "signal 99" for a signal without a name.
std::string signal_name(int signal);

}  // namespace ddprun::launcher
