// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"

namespace ddprun::launcher {

/// Reads the signals that block_signals blocked, in an agent: SIGTSTP, which is for the guardian,
/// is dropped.
///
/// Thread: the executor's.
class SignalReader {
 public:
  explicit SignalReader(const boost::asio::any_io_executor& executor) : signals_(executor) {}

  /// Calls `received` for each signal from now on. Errors: system.
  Result<> start(std::function<void(int signal)> received);

 private:
  void read_next();

  boost::asio::posix::stream_descriptor signals_;
  std::function<void(int signal)> received_;
};

}  // namespace ddprun::launcher
