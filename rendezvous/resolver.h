// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"
#include "rendezvous/addresses.h"
#include "rendezvous/endpoint.h"

namespace ddprun::rendezvous {

/// Looks names up in the background. The C library can only block, for as long as its servers are
/// silent, so each look-up has a thread; Asio's own resolver would wait for it at the end of the
/// program, this one leaves it behind.
///
/// Destroying it drops the look-up under way: its hook is not called.
/// Thread: the executor's.
class Resolver {
 public:
  using Addresses = std::vector<boost::asio::ip::tcp::endpoint>;
  using Hook = std::function<void(Result<Addresses>)>;

  explicit Resolver(const boost::asio::any_io_executor& executor) : answered_(executor) {}

  /// Calls `resolved` later; an earlier look-up is dropped.
  /// Errors: unreachable (the name does not resolve), system.
  void resolve(const Endpoint& endpoint, Hook resolved);

 private:
  boost::asio::posix::stream_descriptor answered_;  // an event of the thread's
  std::shared_ptr<char> asked_;  // handlers that were queued already look whether it is still there
};

}  // namespace ddprun::rendezvous
