// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <sys/types.h>

namespace ddprun::launcher {

/// The value of a signal to the agent that a key of the terminal has caused.
inline constexpr int kFromTerminal = 1;

/// The guardian's view of the signals that it forwards to the agent. A second request to stop means
/// "at once". If the agent does not read it in time, it hangs, and the guardian has to act.
class StopRequests {
 public:
  explicit StopRequests(pid_t agent) : agent_(agent) {}

  /// Sends `signal` to the agent, which was not reaped. A request to stop also continues it.
  void forward(int signal, bool from_terminal);

  /// The timeout for poll(2) until are_unread() may change; -1: none.
  int timeout() const;

  /// Call after each poll. Whether the agent has not read the second or a later request in time.
  /// Stays true.
  bool are_unread();

  /// Whether are_unread() was true.
  bool are_ignored() const { return ignored_; }

  /// The first signal that asked to stop; 0: none came.
  int first() const { return first_; }

  /// Whether that signal was a Ctrl-C.
  bool are_from_ctrl_c() const { return from_ctrl_c_; }

 private:
  using Clock = std::chrono::steady_clock;

  pid_t agent_;
  int first_ = 0;
  int last_ = 0;
  bool from_ctrl_c_ = false;
  std::optional<Clock::time_point> read_by_;  // when the agent must have read the last one
  bool ignored_ = false;
};

}  // namespace ddprun::launcher
