// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"

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

/// Reads, in an agent, the signals that block_signals blocked. Drops SIGTSTP, which is for the
/// guardian. Slurm and systemd send a request to stop to all processes of a job: to the guardian,
/// which forwards it, and to the agent. These two count as one request, not as a second request
/// that kills at once.
///
/// Thread: the executor's.
class SignalReader {
 public:
  explicit SignalReader(const boost::asio::any_io_executor& executor) : signals_(executor) {}

  /// Calls `received` for each signal from now on. Errors: system.
  Result<> start(std::function<void(int signal)> received);

  /// Whether the signal being received was a key of the terminal, which the guardian got.
  bool is_from_terminal() const { return is_from_terminal_; }

 private:
  void read_next();
  bool is_repeated(int signal, bool is_forwarded);

  /// How often a request to stop has come, by each way.
  struct Count {
    int forwarded = 0;
    int direct = 0;
  };

  boost::asio::posix::stream_descriptor signals_;
  std::function<void(int signal)> received_;
  std::map<int, Count> stop_requests_;
  bool is_from_terminal_ = false;
};

}  // namespace ddprun::launcher
