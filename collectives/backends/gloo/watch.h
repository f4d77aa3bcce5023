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

/// Sees other ranks end while the ranks connect: Gloo, where it waits for the other side to come,
/// would wait for a dead one all the same.
///
/// Each rank listens on a port of its own from before it joins until the group ends, and says
/// nothing to those who watch: to be connected is to be told by the kernel when the process ends.
class PeerWatch {
 public:
  using Endpoint = boost::asio::ip::tcp::endpoint;

  struct Peer {
    int rank = 0;
    Endpoint endpoint;
    Frame greeting;  ///< says who we are
  };

  /// Listens on `address`. Throws what asio throws.
  explicit PeerWatch(const std::string& address);

  /// Where other ranks connect to.
  Endpoint endpoint() const { return acceptor_.local_endpoint(); }

  /// Gives the port away, to go on listening there.
  void hand_over_to(boost::asio::ip::tcp::acceptor& other);

  /// What is called, once at most, when a peer ended or the time is over.
  struct Callbacks {
    std::function<void(int rank, const std::string& reason)> lost;
    std::function<void()> timed_out;
  };

  /// Runs `work` in a thread of its own and returns when it ends. Calls back in the
  /// calling thread, which must make the work end soon.
  static void during(const std::function<void()>& work, const Callbacks& callbacks,
                     const std::vector<Peer>& peers, std::chrono::milliseconds limit);

 private:
  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
};

}  // namespace ddp::internal
