// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/session/delivery.h"
#include "rendezvous/session/lease.h"
#include "rendezvous/wire/protocol.h"

// DECIDES what an agent does about its session with the master: when it connects and what it sends
// again, when its lease is renewed or over, and when it gives up. Pure: no socket, no timer, no
// clock. Client performs the actions, and passes the NodeEvents among them on to the node.
//
// clang-format off
//  event \ line   | none                       | in use                     | silent: in use, and a
//                 |                            |                            |  new one is being made
//  ---------------+----------------------------+----------------------------+---------------------------
//  connected      | Hello on it                | - (not dialed)             | Hello on it
//  dial_failed    | Dial after a pause; with   | -                          | Dial after a pause
//                 |  the master in this process|                            |
//                 |  GaveUp, also if refused   |                            |
//                 |  before the first Welcome  |                            |
//  new line lost, | Dial after a pause         | -                          | Dial after a pause
//   or no welcome |                            |                            |
//  line proven    | -                          | -                          | its time starts again
//  used line lost | -                          | > none; Dial               | > none; Dial
//  Welcome, old   | > in use; unacknowledged   | -                          | the same, on the new line
//   session       |  messages again; Heartbeat |                            |
//  Welcome, new   | > in use; the Join that has| -                          | the same, on the new line
//   session       |  no answer again, else     |                            |
//                 |  RoundLost; Heartbeat      |                            |
//  another reply  | -                          | its effect                 | > in use; its effect
//  refused as a   | the end; where the master  | -                          | the same
//   stranger      |  is searched, Dial after a |                            |
//                 |  pause                     |                            |
//  heartbeat due  | -                          | Heartbeat; no answer to two| Heartbeat
//                 |                            |  of them: > silent; Dial   |
//  lease over     | LeaseOver                  | LeaseOver                  | LeaseOver
//  join_timeout   | GaveUp                     | -                          | GaveUp
// clang-format on
//
// Closed, Refused and GaveUp end the session, and so does gone(): nothing follows.
//
// A lease runs from the time at which the agent sent the heartbeat or hello that the master
// answered. Each event first looks whether the lease is over by then, so a process that stood still
// may read its timers and sockets in any order. If a Ready comes when there is no lease, as after a
// welcome whose hello took longer than one, it waits for the answer to a heartbeat: else its
// workers would run without a lease. Until then no worker of that round runs here. The agent
// answers a Broken by a Join at once. A new session gets the unanswered Join, which reports that
// round. After --hang_timeout the agent tells the master that this node makes no progress.

namespace ddprun::rendezvous {

namespace agent_action {

/// Make a connection: `connected` or `dial_failed` follows.
struct Dial {};
struct StopDialing {};
struct Send {
  ConnectionId to;
  Message message;
};
struct Close {
  ConnectionId connection;
};

/// Ask the kernel who owns these connections, and send message::Owned on `to`.
struct TellOwners {
  ConnectionId to;
  std::vector<SocketEnds> connections;
};

}  // namespace agent_action

/// The events that a session reports to its node. Client reports Connected and Located,
/// AgentSession the rest.
namespace node_event {

/// The master's settings for every node. It comes before any notification.
struct Welcomed {
  reply::Welcome welcome;
};
struct Notified {
  Notification notification;
};
/// The answer to AgentSession::ask.
struct WaitingFor {
  std::string sentence;
};
/// The master became unreachable, or reachable again.
struct ConnectionChanged {
  std::string sentence;
};
/// Another agent asks about the job, or answers.
struct Inquiring {
  Inquiry inquiry;
};
/// The lease ends at `until`. The master waits a fifth of the lease longer.
struct LeaseRenewed {
  BootClock::time_point until;
};
/// The lease is over, and the master may begin a round without this node: no worker may run any
/// longer. The session keeps trying to connect.
struct LeaseOver {};
/// The master is reachable again but does not know this node's round.
struct RoundLost {
  std::string reason;
};
/// A master that did not run the last round, and so had none to break, counted a restart for that
/// round's failure. Ready follows.
struct FailureCounted {
  Failure failure;
  int restarts = 0;
};
/// No restart was counted for that failure, because this node or an elected master was lost then.
/// Ready follows.
struct FailureDropped {
  Failure failure;
};
/// No notification will follow. Errors: timed_out, protocol.
struct GaveUp {
  Error error;
};
/// A connection to the master was made: Client::connected_to() has the address.
struct Connected {};
/// Client::Options::locate found the master here.
struct Located {
  Endpoint master;
};

}  // namespace node_event

using NodeEvent =
    std::variant<node_event::Welcomed, node_event::Notified, node_event::WaitingFor,
                 node_event::ConnectionChanged, node_event::Inquiring, node_event::LeaseRenewed,
                 node_event::LeaseOver, node_event::RoundLost, node_event::FailureCounted,
                 node_event::FailureDropped, node_event::GaveUp, node_event::Connected,
                 node_event::Located>;

using AgentAction = std::variant<agent_action::Dial, agent_action::StopDialing, agent_action::Send,
                                 agent_action::Close, agent_action::TellOwners, NodeEvent>;
using AgentActions = std::vector<AgentAction>;

/// One agent's side of its session; the comment above has its table.
class AgentSession {
 public:
  using Time = Lease::Time;
  using milliseconds = Lease::milliseconds;

  struct Settings {
    std::string master;  ///< its endpoint, for messages
    std::string run_id;
    int min_nodes = 1;
    int max_nodes = 1;
    std::string host;
    std::string session;                   ///< random
    std::vector<std::string> addresses{};  ///< as in message::Hello
    bool hosting = false;                  ///< the master is in this process: no lease
    bool elected = false;  ///< `master` changes, and may be out of date when it is dialed
    /// The master is at one of several places, which are dialed by turns. Another job's master, or
    /// another program, at one of them is a failed attempt.
    bool searched = false;
    milliseconds join_timeout{600'000};
  };

  /// The time to make a connection, for one address, and then to be welcomed. Without a lease it
  /// doubles after each connection that was not welcomed, up to sixteen times. On an encrypted line
  /// this is the time for the handshake, and again for the welcome. The kernel repeats a lost SYN
  /// after one second (RFC 6298).
  static constexpr milliseconds kDialLimit{3'000};

  explicit AgentSession(Settings settings) : settings_(std::move(settings)) {}

  // Messages of the node. Only ask() may be called before the first join().
  AgentActions join(JoinRequest request, Time now);
  AgentActions fail(int round, Failure failure, Time now);
  AgentActions succeed(int round, Time now);
  AgentActions progress(NodeProgress progress, Time now);
  AgentActions leave(const std::string& signal, Time now);
  /// No process of this node runs any more.
  AgentActions gone(const std::string& how, Time now);
  AgentActions ask(Time now);
  /// Sends the inquiry only if the master can be reached now.
  AgentActions inquire(Inquiry inquiry, Time now);

  // Events of connections; `id` is new with each.
  AgentActions connected(ConnectionId id, Time now);
  AgentActions dial_failed(const Error& error, Time now);
  /// The other side of an encrypted line has proven that it is the master.
  AgentActions proven(ConnectionId id, Time now);
  /// Sets the master's place, for messages.
  void located(std::string master) { settings_.master = std::move(master); }
  AgentActions lost(ConnectionId id, const Error& error, Time now);
  AgentActions received(ConnectionId id, Reply reply, Time now);

  /// Call it at `deadline`; harmless at any other time.
  AgentActions tick(Time now);

  /// When `tick` has something to do; nullopt: not before another event.
  std::optional<Time> deadline() const;

  /// True also when the master has not been reached yet.
  bool is_unreachable() const { return unreachable_since_.has_value(); }

 private:
  template <class Action>
  void act(Action action) {
    actions_.emplace_back(std::move(action));
  }
  void report(NodeEvent event) { actions_.emplace_back(std::move(event)); }
  AgentActions take() { return std::exchange(actions_, {}); }

  void end_lease_if_over(Time now);
  void send(const Message& message);
  void send_counted(Message message);
  void dial();
  void dial_later(Time now);
  void await_welcome(Time now);
  void say_hello(Time now);
  void drop_pending(const std::string& reason, Time now);
  void give_up_pending(Time now);
  bool may_be_elsewhere() const { return settings_.elected || settings_.searched; }
  void set_reason(const std::string& place, const std::string& reason);
  void become_unreachable(Time since, const std::string& sentence);
  void become_reachable(Time now);
  void end();
  void give_up(Error error);

  void take_reply(Reply reply, Time now);
  void take_welcome(const reply::Welcome& welcome, Time now);
  void resume(std::uint64_t received);
  void begin_again(const std::string& reason);
  void take_notification(Notification notification, Time now);
  void hold(Ready ready, Time now);
  void report_progress(bool quiet, Time now);
  void begin_round(const Layout& layout);
  void take_broken(const Broken& broken);
  void take_heartbeat(const Heartbeat& heartbeat, Time now);
  void send_heartbeat(Time now);
  void renew_lease(Time sent, Time now);
  bool has_lease(Time now) const;
  std::string waiting_for_lease() const;
  std::string waiting_for_master() const;

  Settings settings_;
  AgentActions actions_;

  std::optional<ConnectionId> used_;
  std::optional<ConnectionId> pending_;  // the newest line, not welcomed yet
  bool dialing_ = false;
  bool joined_ = false;  // at least once
  std::uint64_t hellos_ = 0;
  int unanswered_ = 0;  // connections in a row that were given up, when there was no lease
  Time hello_sent_{};
  Time renewed_from_{};  // when we sent the message that the master answered last

  std::string master_;        // the name in the last Welcome; empty: none yet
  std::string master_place_;  // the place that it came from
  std::string used_place_;    // the place of the connection in use
  std::string ticket_;        // of the last Welcome
  std::string round_master_;  // the master that began the last round here
  Delivery<Message> delivery_;
  Lease lease_;
  milliseconds hang_timeout_{0};  // of the last Welcome; zero: no limit
  std::optional<JoinRequest> unanswered_join_;
  // Why the last round failed, if that is known here and no restart was counted for it. A master
  // that does not know this session may not know it, either: the join reports it.
  std::optional<Failure> failure_;
  bool begun_again_ = false;   // a new session since the last Ready
  std::optional<Ready> held_;  // came without a lease, and waits for one
  Time held_since_{};
  bool is_quiet_ = false;  // reported: that round has not run for --hang_timeout
  // The round that runs here belongs to another session, whose lease is not renewed: this master
  // does not wait for its workers.
  bool round_lost_ = false;
  bool left_ = false;
  bool over_ = false;

  std::optional<Time> unreachable_since_;
  std::string reason_;                          // why the last attempt to connect failed
  std::map<std::string, std::string> reasons_;  // that of each place of a searched master
  std::optional<Time> next_dial_;
  std::optional<Time> welcome_limit_;
  std::optional<Time> next_heartbeat_;
  std::optional<Time> lease_end_;  // nullopt: none, or over
};

}  // namespace ddprun::rendezvous
