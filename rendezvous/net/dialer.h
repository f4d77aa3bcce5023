// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::rendezvous {

/// Makes one TCP connection after the other to an endpoint, and looks up its name each time, as the
/// addresses may change.
///
/// Destroying it drops the attempt under way: no hook is called any more.
/// Thread: the executor's.
class Dialer {
 public:
  struct Hooks {
    std::function<void(boost::asio::ip::tcp::socket)> connected;
    /// Errors: unreachable, with the reason of the last address tried ("connection refused").
    std::function<void(Error)> failed;
  };

  /// Connects from `local` if it is given.
  Dialer(boost::asio::any_io_executor executor, Endpoint endpoint,
         std::optional<boost::asio::ip::address> local, Hooks hooks);

  /// Sets the endpoint from the next dial() on.
  void set_endpoint(Endpoint endpoint) { endpoint_ = std::move(endpoint); }

  /// Tries each address once, for at most `limit`; one of the hooks follows. Does nothing while an
  /// attempt is under way.
  void dial(std::chrono::milliseconds limit);

  void cancel();

 private:
  using Tcp = boost::asio::ip::tcp;

  void try_next();
  Result<> open(const Tcp& protocol);
  void on_tried(const boost::system::error_code& failure);
  void give_up_address(std::string reason);
  void fail(std::string reason);

  Endpoint endpoint_;
  std::optional<boost::asio::ip::address> local_;
  Hooks hooks_;
  Resolver resolver_;
  Tcp::socket socket_;
  boost::asio::steady_timer limit_;
  std::chrono::milliseconds each_{0};
  std::vector<Tcp::endpoint> addresses_;  // still to be tried, the next one last
  std::string reason_;                    // why the last address failed
  std::shared_ptr<char> attempt_;  // null: none is under way; handlers check that it is theirs
};

}  // namespace ddprun::rendezvous
