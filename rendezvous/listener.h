// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"

namespace ddprun::rendezvous {

/// The one port of a job: accepts every connection and identifies it by its first bytes.
///
/// Destroying it closes the connections that are still pending.
/// Thread: the executor's.
class Listener {
 public:
  struct Hooks {
    /// An agent that speaks protocol `version`. `received`: the bytes after its greeting.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received, int version)> agent;
    /// Any other: a client of the store, or a connection that the store will refuse.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received)> other;
  };

  Listener(boost::asio::any_io_executor executor, Hooks hooks)
      : executor_(executor), hooks_(std::move(hooks)) {}

  /// Listens on those of `addresses`, at least one, that are this host's; port 0 takes a free one,
  /// the same for all. Errors: usage (none is this host's, or the port is taken: says which and
  /// what to do), system.
  Result<> listen(const std::vector<boost::asio::ip::tcp::endpoint>& addresses);

  /// Where it listens first.
  boost::asio::ip::tcp::endpoint address() const;

 private:
  using Tcp = boost::asio::ip::tcp;
  /// A connection that is not identified yet.
  struct PendingConnection {
    Tcp::socket socket;
    std::string received;
  };
  using PendingConnections = std::list<PendingConnection>;
  /// An address that we listen at.
  struct ListenSocket {
    Tcp::acceptor acceptor;
    boost::asio::steady_timer pause;
    bool stuck = false;  ///< it cannot accept, and that was logged
  };

  Result<> listen_at(const Tcp::endpoint& address);
  void accept(ListenSocket& listening);
  void retry_accept(ListenSocket& listening, int error_number);
  void listen_to(PendingConnections::iterator pending);
  void classify(PendingConnections::iterator pending);

  boost::asio::any_io_executor executor_;
  Hooks hooks_;
  std::list<ListenSocket> listen_sockets_;
  PendingConnections pending_;
};

}  // namespace ddprun::rendezvous
