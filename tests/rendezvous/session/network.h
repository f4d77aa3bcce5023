// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/net/endpoint.h"
#include "tests/rendezvous/session/world.h"

namespace ddprun::rendezvous {

/// A port that the test itself answers.
class ListenSocket {
 public:
  explicit ListenSocket(World& world);

  Endpoint endpoint() const;

  /// The next connection.
  std::unique_ptr<Peer> next();

 private:
  World& world_;
  boost::asio::ip::tcp::acceptor acceptor_;
};

/// The network between members and the server, only as reliable as the test wants it.
class Network {
 public:
  explicit Network(World& world);
  ~Network();
  Network(const Network&) = delete;

  /// Where members find the server.
  Endpoint endpoint() const;

  /// Messages from now on stay on their way, also over connections that are made from now on.
  void stall();

  /// All that is on its way arrives, and all goes on as if nothing had been.
  void heal();

  /// The same for one connection, by the order in which they were made.
  void heal(size_t connection);

  /// Messages over the connections there are are lost from now on.
  void swallow();

  /// The members' ends of the connections there are break; the server hears nothing of it.
  void break_members_ends();

  /// The connections there are are reset, towards both sides, as a device on the way does it.
  void reset();

  /// The same towards the server alone; the members hear nothing of it.
  void reset_servers_ends();

  /// Connections so far.
  size_t connections() const { return links_.size(); }

 private:
  struct Way;
  struct Link;

  void accept();
  void connect(Link& link);
  void read(const std::shared_ptr<Link>& link, Way& way);
  static void pass(Way& way);
  static void reset(boost::asio::ip::tcp::socket& socket);

  World& world_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::vector<std::shared_ptr<Link>> links_;
  bool stalled_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace ddprun::rendezvous
