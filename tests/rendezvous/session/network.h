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

  /// The address at which members find the server.
  Endpoint endpoint() const;

  /// Holds all messages from now on, also those over new connections.
  void stall();

  /// Delivers the held messages, and disturbs nothing from now on.
  void heal();

  /// The same for one connection, by the order in which they were made.
  void heal(size_t connection);

  /// Loses all messages over the present connections from now on.
  void swallow();

  /// Breaks the members' ends of the present connections; the server does not notice.
  void break_members_ends();

  /// Resets the present connections towards both sides, as a device on the way does.
  void reset();

  /// The same only towards the server; the members do not notice.
  void reset_servers_ends();

  /// The number of connections so far.
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
