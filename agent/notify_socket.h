// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"

namespace ddprun::agent {

/// A socket for sd_notify(3): workers find it in NOTIFY_SOCKET. Its name is in no file system. The
/// kernel says which process has sent a message; what the message says of its sender is ignored.
///
/// Destroying it drops what is still to come. Thread: the executor's.
class NotifySocket {
 public:
  /// A message, and the process that has sent it; it may have ended.
  using Received = std::function<void(pid_t, std::string_view)>;

  NotifySocket(const boost::asio::any_io_executor& executor, Received received)
      : socket_(executor), received_(std::move(received)) {}

  /// Errors: system.
  Result<> open();

  /// "@ddprun/..."; empty: it is not open.
  const std::string& address() const { return address_; }

 private:
  void wait();
  bool read_one();

  boost::asio::posix::stream_descriptor socket_;
  Received received_;
  std::string address_;
};

}  // namespace ddprun::agent
