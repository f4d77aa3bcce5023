// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/control_connection.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/protocol.h"
#include "rendezvous/round.h"
#include "rendezvous/store_server.h"

namespace ddprun::rendezvous {

/// The rendezvous of one job on one port: agents, who find each other through it, and workers, who
/// find the store there; the first bytes of a connection tell them apart. DOES what Round decides.
///
/// Destroying it closes every connection.
/// Thread: the executor's.
class Server {
 public:
  struct Options {
    std::string run_id;  ///< agents of another job are refused
    RoundSpec round;
  };

  /// Listens on every address of `endpoint`; port 0 takes a free one, the same for all.
  /// Errors: usage (an address is not this host's, or the port is taken: says which and what to
  /// do), unreachable (the name does not resolve), system.
  static Result<std::unique_ptr<Server>> listen(boost::asio::any_io_executor executor,
                                                const Endpoint& endpoint, Options options);

  /// Where it listens first.
  boost::asio::ip::tcp::endpoint address() const;

 private:
  using Tcp = boost::asio::ip::tcp;
  /// A connection that has not said yet what it is.
  struct Newcomer {
    Tcp::socket socket;
    std::string received;
  };
  using Newcomers = std::list<Newcomer>;

  Server(boost::asio::any_io_executor executor, Options options);

  Result<> add_listener(const Tcp::endpoint& address);
  void accept(Tcp::acceptor& acceptor);
  void retry_accept(Tcp::acceptor& acceptor);
  void listen_to(Newcomers::iterator newcomer);
  void place(Newcomers::iterator newcomer);
  void admit_agent(Tcp::socket socket, std::string_view received, int version);

  void on_frame(NodeId node, std::string_view body);
  Letters answer(NodeId node, const Message& message);
  void on_lost(NodeId node, const Error& error);
  void deliver(const Letters& letters);
  void wait_for_deadline();

  boost::asio::any_io_executor executor_;
  Options options_;
  Round round_;
  StoreServer store_;
  int store_round_ = 0;  ///< the round whose keys the store holds
  std::list<Tcp::acceptor> acceptors_;
  Newcomers newcomers_;
  std::unordered_map<NodeId, ControlConnection> agents_;
  NodeId last_node_ = 0;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer accept_pause_;
};

}  // namespace ddprun::rendezvous
