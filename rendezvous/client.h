// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/control_connection.h"
#include "rendezvous/delivery.h"
#include "rendezvous/dialer.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/lease.h"
#include "rendezvous/protocol.h"
#include "rendezvous/round.h"
#include "rendezvous/stream_socket.h"

namespace ddprun::rendezvous {

class Server;

/// This node's session with the rendezvous server, kept for the whole job. When a connection
/// breaks, or the server falls silent on it, the client makes a new one and sends again what was
/// lost: as long as the server still knows this node, the other nodes do not notice. `delivery` has
/// the bookkeeping of that, `lease` the arithmetic of heartbeats.
///
/// The workers' deadline: `lease_renewed` and `lease_over`. A client in the server's own process
/// cannot lose it and has no lease.
///
/// Destroying it closes the connection; no hook is called any more.
/// Thread: the executor's.
class Client {
 public:
  struct Options {
    Endpoint server;
    std::optional<boost::asio::ip::address> local;  ///< where to connect from
    std::string run_id;
    int min_nodes = 1;
    int max_nodes = 1;
    std::string host;                                 ///< this node's name, for people
    Server* hosted = nullptr;                         ///< the server, if it is in this process
    std::chrono::milliseconds join_timeout{600'000};  ///< unreachable for so long: given up
  };

  struct Hooks {
    /// The master's settings for every node; before any notification.
    std::function<void(const reply::Welcome&)> welcomed;
    std::function<void(Notification)> received;
    /// The answer to request_waiting_for().
    std::function<void(const std::string& sentence)> waiting;
    /// The server became unreachable, or reachable again: a sentence for people.
    std::function<void(const std::string& sentence)> connection_changed;
    /// The lease ends then. The server waits a fifth of it longer.
    std::function<void(std::chrono::steady_clock::time_point until)> lease_renewed;
    /// The lease is over and the server may go on without this node: no worker may run any longer.
    /// The client keeps trying.
    std::function<void()> lease_over;
    /// The server is reachable again but does not know this node's round.
    std::function<void(const std::string& reason)> round_lost;
    /// No notification will come any more. Errors: timed_out, protocol.
    std::function<void(Error)> gave_up;
  };

  Client(const boost::asio::any_io_executor& executor, Options options, Hooks hooks);

  /// Asks to be part of the next round; connects first when needed. A notification follows.
  void join(JoinRequest request);

  /// Reports the first worker that failed here in `round`.
  void fail(int round, Failure failure);

  /// Reports that all workers of `round` on this node succeeded.
  void succeed(int round);

  /// Reports that this node takes no further part. The others go on when the connection is closed;
  /// one that breaks is not made again.
  void leave();

  /// Asks what this node waits for. `waiting` has the answer, at once while the server is
  /// unreachable.
  void request_waiting_for();

  /// Also when it has not been reached yet.
  bool is_unreachable() const { return unreachable_since_.has_value(); }

 private:
  using Clock = Lease::Clock;
  using Timer = boost::asio::steady_timer;

  // Connecting.
  void dial();
  void dial_later();
  void on_connected(StreamSocket socket);
  void send_hello();
  void drop_pending(const std::string& reason);
  void on_connection_lost(std::uint64_t connection, const Error& error);
  bool is_pending(std::uint64_t connection) const { return pending_ && connection == dialed_; }
  void on_unreachable(Clock::time_point since, const std::string& sentence);
  void on_reachable();
  void give_up(Error error);

  // Messages.
  void send(const Message& message);
  void send_counted(const Message& message);
  void on_frame(std::uint64_t connection, std::string_view body);
  void on_reply(Reply reply);
  void on_welcome(const reply::Welcome& welcome);
  void resume_session(std::uint64_t received);
  void begin_session(const std::string& reason);
  void on_notification(Notification notification);
  void on_heartbeat(const Heartbeat& heartbeat);

  // Time.
  void send_heartbeat();
  void renew_lease(Clock::time_point sent);
  template <class Then>
  void call_at(Timer& timer, Clock::time_point when, Then then);

  bool is_hosting() const { return options_.hosted != nullptr; }
  std::string waiting_for_master() const;

  Options options_;
  Hooks hooks_;
  const std::string session_;
  Dialer dialer_;
  std::unique_ptr<ControlConnection> connection_;  // in use
  std::unique_ptr<ControlConnection> pending_;     // the newest, not welcomed yet
  std::uint64_t dialed_ = 0;                       // connections so far
  Clock::time_point hello_sent_;
  Clock::time_point renewed_from_;  // when we sent what the master answered last

  std::string master_;  // the server of the last Welcome; empty: none yet
  Delivery delivery_;
  Lease lease_;
  std::optional<JoinRequest> unanswered_join_;
  // The round that runs here belongs to another session: this server does not wait for its workers,
  // so that session's lease is not renewed.
  bool round_lost_ = false;
  bool left_ = false;
  bool over_ = false;  // Closed, Refused or given up

  std::optional<Clock::time_point> unreachable_since_;
  std::string reason_;  // why the last attempt to connect failed
  Timer next_dial_;
  Timer welcome_limit_;
  Timer next_heartbeat_;
  Timer lease_end_;
  Timer join_limit_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // timers that have fired look at it
};

}  // namespace ddprun::rendezvous
