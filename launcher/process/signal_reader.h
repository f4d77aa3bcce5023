// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"

namespace ddprun::launcher {

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
