// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/async_jobs.h"
#include "base/error.h"
#include "base/fd.h"

namespace ddprun::agent {

/// A socket for sd_notify(3): workers find it in NOTIFY_SOCKET. It is in a folder that only this
/// user may enter. The kernel names a message's sender; the message's own word on it is ignored.
///
/// Destroying it drops pending messages. Thread: the executor's.
class NotifySocket {
 public:
  /// Gets the sender of a message, which may have ended, and the message.
  using Received = std::function<void(pid_t, std::string_view)>;

  NotifySocket(const boost::asio::any_io_executor& executor, Received received)
      : readable_(executor), reads_(executor), received_(std::move(received)) {}
  ~NotifySocket();

  /// Errors: system.
  Result<> open();

  /// The path of the socket; empty: it is not open.
  const std::string& address() const { return address_; }

 private:
  void wait();
  void read();

  std::shared_ptr<const Fd> socket_;                // shared with the reading thread
  boost::asio::posix::stream_descriptor readable_;  // the same
  AsyncJobs reads_;
  Received received_;
  std::string address_;
};

}  // namespace ddprun::agent
