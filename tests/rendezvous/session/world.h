// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/session/client.h"
#include "rendezvous/session/server.h"
#include "rendezvous/wire/protocol.h"
#include "tests/catch.h"

namespace ddprun::rendezvous {

/// A server and its clients, in one thread, over real sockets.
class World {
 public:
  static constexpr std::chrono::milliseconds kSoon{50};
  static constexpr std::chrono::milliseconds kNever{600'000};

  /// Makes a world without a server.
  World();
  explicit World(const RoundSpec& spec, std::chrono::milliseconds lease = kNever);
  ~World();
  World(const World&) = delete;

  /// Listens at the last server's port, or at a free one.
  void start_server(const RoundSpec& spec, std::chrono::milliseconds lease = kNever);

  Endpoint endpoint() const { return {"127.0.0.1", port}; }

  /// Turns the loop until `condition` holds.
  void until(const std::function<bool()>& condition);

  /// Turns the loop until nothing is left to do at once.
  void settle();

  /// Whether a line was logged that contains `text`.
  bool logged(const std::string& text) const;

  boost::asio::io_context io{1};
  std::shared_ptr<const Security> security;  ///< of servers that are started; nullptr: none
  std::string sealed_secret;                 ///< `security`'s, for agents that ask
  std::unique_ptr<Server> server;
  std::uint16_t port = 0;
  std::uint64_t hellos = 0;      ///< of peers; each has a number
  bool tunnels_only = false;     ///< as confirm_clients
  bool confirm_clients = false;  ///< of the store, of servers that are started
  std::vector<std::string> log;
  std::vector<std::string> history;  ///< the events of members, in order: "a: lease over"
};

/// A job that takes `min` to `max` nodes.
RoundSpec nodes(int min, int max);

/// An agent without workers.
class Member {
 public:
  Member(World& world, const std::string& name) : Member(world, name, world.endpoint()) {}
  Member(World& world, const std::string& name, const Endpoint& server)
      : Member(world, options(name, server)) {}
  Member(World& world, Client::Options options);

  /// The options of a member of the job "job" of two nodes.
  static Client::Options options(const std::string& name, const Endpoint& server);

  /// Joins, and reports its last layout.
  void join(int local_size = 1);

  /// Reports that its first worker failed.
  void fail(int round);

  /// The next notification, which must be a T.
  template <class T>
  T next() {
    world_.until([this] { return !notifications.empty(); });
    const Notification notification = std::move(notifications.front());
    notifications.pop_front();
    REQUIRE(std::holds_alternative<T>(notification));
    return std::get<T>(notification);
  }

  JoinRequest request;
  std::deque<Notification> notifications;
  std::vector<reply::Welcome> welcomes;
  std::vector<std::string> waiting;
  std::vector<std::string> connection_changes;
  std::vector<std::string> rounds_lost;
  std::vector<BootClock::time_point> leases;  ///< their ends
  int leases_over = 0;
  std::optional<Error> gave_up;

 private:
  void on(const NodeEvent& event);
  void on_notification(Notification notification);

  World& world_;
  std::string name_;

 public:
  Client client;
};

/// One end of a connection on which the test itself sends and receives.
class Peer {
 public:
  /// Connects to the world's server.
  explicit Peer(World& world);
  Peer(World& world, boost::asio::ip::tcp::socket socket);

  void send(const std::string& bytes);
  void say(const Message& message) { send(encode(message)); }
  void answer(const Reply& reply) { send(encode(reply)); }

  /// Sends greeting and hello of an agent of a job of `nodes` nodes.
  void introduce(const std::string& session, int nodes = 1, std::uint64_t notifications = 0);
  void join(int local_size = 1);

  /// The next reply of the server; must be a T.
  template <class T>
  T next_reply() {
    const Result<Reply> reply = decode_reply(next_body());
    if (!reply) FAIL(reply.error().message);
    REQUIRE(std::holds_alternative<T>(*reply));
    return std::get<T>(*reply);
  }

  /// The next notification of the server; must be a T.
  template <class T>
  T next_notification() {
    const auto notification = next_reply<Notification>();
    REQUIRE(std::holds_alternative<T>(notification));
    return std::get<T>(notification);
  }

  /// The next message of an agent, heartbeats left out; must be a T.
  template <class T>
  T next_message() {
    for (;;) {
      const Result<Message> message = decode_message(next_body());
      if (!message) FAIL(message.error().message);
      if (!std::is_same_v<T, Heartbeat> && std::holds_alternative<Heartbeat>(*message)) continue;
      REQUIRE(std::holds_alternative<T>(*message));
      return std::get<T>(*message);
    }
  }

  /// Receives greeting and hello of an agent that connected.
  message::Hello greeted();

  void close();

  /// Sends nothing more, and continues to receive.
  void end();

  /// The other side's address.
  std::string address() const { return socket_.remote_endpoint().address().to_string(); }

  std::string received;  ///< bytes that are not processed yet
  bool closed = false;   ///< by the other side

 private:
  std::string next_body();
  void read();

  World& world_;
  boost::asio::ip::tcp::socket socket_;
  std::array<char, 4096> buffer_{};
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace ddprun::rendezvous
