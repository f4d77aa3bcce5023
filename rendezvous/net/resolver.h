// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/async_jobs.h"
#include "base/error.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::rendezvous {

/// Looks names up in the background. The C library blocks as long as its servers are silent, so
/// each look-up has a thread. Asio's own resolver would wait for it at the end of the program; this
/// one does not.
///
/// Destroying it drops the look-up under way: its hook is not called.
/// Thread: the executor's.
class Resolver {
 public:
  using Addresses = std::vector<boost::asio::ip::tcp::endpoint>;
  using Hook = std::function<void(Result<Addresses>)>;

  explicit Resolver(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  /// Calls `resolved` later; an earlier look-up is dropped.
  /// Errors: unreachable (the name does not resolve).
  void resolve(const Endpoint& endpoint, Hook resolved);

 private:
  boost::asio::any_io_executor executor_;
  std::unique_ptr<AsyncJobs> look_up_;  // the last one
};

}  // namespace ddprun::rendezvous
