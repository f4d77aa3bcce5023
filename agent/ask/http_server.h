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

/// Answers HTTP: on a unix socket only to processes of this user and of root, or at an address to
/// everybody whom the handler accepts. Never blocks: the size, the number and the time of requests
/// are bounded, and a handler does long work on a thread.
///
/// Destroying it closes and removes the socket, and drops the pending answers.
/// Thread: the executor's.
class HttpServer {
 public:
  HttpServer(boost::asio::any_io_executor executor, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  /// Listens at `path`; replaces the socket of a process that has ended. Touches the file system.
  /// Errors: port_in_use, system.
  Result<> listen(const std::string& path);

  /// Listens at this IP address; port 0: a free one. Returns the port. Errors: port_in_use, system.
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);

  /// Sends `bytes` to all followers. While a follower takes the last bytes, only the latest newer
  /// ones are kept for it. If it takes too many seconds, its connection is closed.
  void publish(std::string bytes);

  /// Calls `done` when all followers have taken what was published, at the latest in half a second.
  void drain(std::function<void()> done);

  /// The number of followers: clients whose answer has Answer::follows.
  std::size_t followers() const;

 private:
  class Listener;
  class Connection;
  std::shared_ptr<Listener> listener_;
};

}  // namespace ddprun::agent::ask
