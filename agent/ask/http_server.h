// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "agent/ask/routes.h"
#include "base/error.h"

namespace ddprun::agent::ask {

/// Answers HTTP on a unix socket, where only processes of this user, and root's, are heard; or at
/// an address, where the handler decides whom it answers. Never blocks: requests, their number and
/// the time that they take are bounded; a handler that has much to do does it on a thread.
///
/// Destroying it closes the socket and removes it; answers that are still to come are dropped.
/// Thread: the executor's.
class HttpServer {
 public:
  HttpServer(boost::asio::any_io_executor executor, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  /// Listens at `path`, in place of a process that has ended. Touches the file system. Errors:
  /// system.
  Result<> listen(const std::string& path);

  /// Listens at this IP address; port 0: a free one. Returns the port. Errors: port_in_use, system.
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);

  /// Sends `bytes` to all whose answer follows. One that has not yet taken the last ones gets the
  /// latest of those that come meanwhile, and is closed when it has not for some seconds.
  void publish(std::string bytes);

  /// Calls `done` when all have taken what was published, or half a second later.
  void drain(std::function<void()> done);

  /// Those whose answer follows.
  std::size_t followers() const;

 private:
  class Listener;
  class Connection;
  std::shared_ptr<Listener> listener_;
};

}  // namespace ddprun::agent::ask
