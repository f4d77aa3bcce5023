// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "agent/ask/routes.h"
#include "base/error.h"

namespace ddprun::agent::ask {

/// Answers HTTP on a unix socket. Only processes of this user, and root's, are heard. Never blocks:
/// requests, their number and the time that they take are bounded; a handler that has much to do
/// does it on a thread.
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

 private:
  class Listener;
  class Connection;
  std::shared_ptr<Listener> listener_;
};

}  // namespace ddprun::agent::ask
