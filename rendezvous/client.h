// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/control_connection.h"
#include "rendezvous/dialer.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/protocol.h"
#include "rendezvous/round.h"
#include "rendezvous/stream_socket.h"
#include "rendezvous/unacked_queue.h"

namespace ddprun::rendezvous {

class Server;

/// This node's line to the rendezvous server, kept for the whole job. A connection that breaks, or
/// on which the server falls silent, is made anew, and what was lost on the way is said again: as
/// long as the server still knows this node, nobody else notices.
///
/// Time. Every heartbeat that the server answers renews the lease, from the moment it was *sent*:
/// so this side knows that the lease is over before the server can, and its workers are gone when
/// the others go on. A client in the server's own process cannot lose it and has no lease.
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
    std::string host;                                 ///< this one's name, for people
    Server* hosted = nullptr;                         ///< the server, if it is in this process
    std::chrono::milliseconds join_timeout{600'000};  ///< out of touch for so long: given up
  };

  struct Hooks {
    /// What the master decided for every node; before any notification.
    std::function<void(const reply::Welcome&)> welcomed;
    std::function<void(Notification)> received;
    /// The answer to ask().
    std::function<void(const std::string& sentence)> waiting;
    /// The line broke, or is there again: a sentence for people.
    std::function<void(const std::string& sentence)> line_changed;
    /// The lease runs until then. With it runs out the server's patience, a fifth of it later.
    std::function<void(std::chrono::steady_clock::time_point until)> lease_renewed;
    /// The lease is over and the server may be about to go on without this node: nothing of its
    /// round may run any more. The client keeps trying.
    std::function<void()> lease_over;
    /// The server is there again but has forgotten this node's round.
    std::function<void(const std::string& reason)> round_lost;
    /// No notification will come any more. Errors: timed_out, protocol.
    std::function<void(Error)> gave_up;
  };

  Client(const boost::asio::any_io_executor& executor, Options options, Hooks hooks);

  /// Asks to be part of the next round; connects first when needed. A notification follows.
  void join(JoinRequest request);

  /// Tells of the first worker that failed here in `round`.
  void fail(int round, Failure failure);

  /// Tells that all workers of `round` ended well here.
  void succeed(int round);

  /// Says that this node takes no further part. The others go on when the line is closed; should it
  /// break, nobody needs it any more.
  void leave();

  /// For whom does this node wait? `waiting` tells, at once while the server is out of reach.
  void ask();

  /// Whether the server is out of reach, or has not been reached yet.
  bool out_of_touch() const { return lost_at_.has_value(); }

 private:
  using Clock = std::chrono::steady_clock;

  void say(const Message& message);
  void send_counted(const Message& message);

  void dial();
  void dial_later(std::chrono::milliseconds least_pause);
  void on_connected(StreamSocket socket);
  void introduce();
  void drop_trial(const std::string& reason);

  void on_frame(std::uint64_t connection, std::string_view body);
  void on_connection_lost(std::uint64_t connection, const Error& error);
  bool is_trial(std::uint64_t connection) const { return trial_ && connection == dialed_; }

  void on_welcome(const reply::Welcome& welcome);
  void repeat(std::uint64_t received);
  void start_anew(const std::string& reason);
  void on_notification(Notification notification);
  void on_heartbeat(const Heartbeat& heartbeat);
  void finish(Error error);

  void lose_touch(Clock::time_point since, const std::string& sentence);
  void in_touch();
  void beat();
  void renew_lease(Clock::time_point from);
  bool silent() const;
  bool hosting() const { return options_.hosted != nullptr; }
  std::string waiting_for_master() const;

  Options options_;
  Hooks hooks_;
  const std::string session_;
  Dialer dialer_;
  std::unique_ptr<ControlConnection> line_;   // in use
  std::unique_ptr<ControlConnection> trial_;  // the newest, not welcomed yet
  std::uint64_t dialed_ = 0;                  // connections so far
  Clock::time_point hello_sent_;
  Clock::time_point renewed_from_;  // when we sent what the master answered last

  std::string master_;  // the server that welcomed us last; empty: none yet
  std::chrono::milliseconds heartbeat_{0};
  std::chrono::milliseconds lease_{0};
  UnackedQueue backlog_;
  std::uint64_t received_ = 0;        // notifications of this session
  std::uint64_t hello_received_ = 0;  // of these, when we said hello last
  std::uint64_t repeated_ = 0;  // notifications on their way that we know from the line before
  std::optional<JoinRequest> asked_for_;  // the join that has no answer yet
  // The round that runs here was another session's: this server does not wait for its workers, so
  // the lease of then is not renewed.
  bool round_lost_ = false;
  bool left_ = false;
  bool over_ = false;  // Closed, Refused or given up

  Clock::time_point heard_{};                 // the last word of the server
  std::deque<Clock::time_point> unanswered_;  // heartbeats, by when they were sent
  std::optional<Clock::time_point> lost_at_;  // out of touch since then
  std::string reason_;                        // why the last attempt to connect failed
  boost::asio::steady_timer next_dial_;
  boost::asio::steady_timer trial_limit_;
  boost::asio::steady_timer next_beat_;
  boost::asio::steady_timer lease_end_;
  boost::asio::steady_timer give_up_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // timers that have fired look at it
};

}  // namespace ddprun::rendezvous
