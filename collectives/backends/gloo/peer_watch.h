// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/gloo/frame.h"

namespace ddp::internal {

/// Detects that a peer's process ends while the ranks connect. Gloo's connect() waits for the peer
/// to connect back, and would wait for a dead one for ever.
///
/// Each rank listens on a port of its own from before it joins until the group ends. Its peers
/// connect there and nothing is ever sent back: when the process ends, its kernel closes these
/// connections.
class PeerWatch {
 public:
  using Endpoint = boost::asio::ip::tcp::endpoint;

  struct Peer {
    int rank = 0;
    Endpoint endpoint;
    Frame greeting;  ///< identifies this rank to the peer
  };

  /// Listens on `address`. Throws what asio throws.
  explicit PeerWatch(const std::string& address);

  /// Where other ranks connect to.
  Endpoint endpoint() const { return acceptor_.local_endpoint(); }

  /// Moves the listening socket to `other`.
  void release_to(boost::asio::ip::tcp::acceptor& other);

  /// At most one of them is called, once: a peer ended, or the time limit has passed.
  struct Callbacks {
    std::function<void(int rank, const std::string& reason)> lost;
    std::function<void()> timed_out;
  };

  /// Runs `work` in a thread of its own while it watches the peers, and returns when the work ends.
  /// Callbacks are called in the calling thread and must make the work end soon.
  static void during(const std::function<void()>& work, const Callbacks& callbacks,
                     const std::vector<Peer>& peers, std::chrono::milliseconds limit);

 private:
  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
};

}  // namespace ddp::internal
