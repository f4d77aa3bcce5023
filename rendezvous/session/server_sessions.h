// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "rendezvous/blame/stall.h"
#include "rendezvous/round/round.h"
#include "rendezvous/session/delivery.h"
#include "rendezvous/session/lease.h"
#include "rendezvous/wire/protocol.h"

// DECIDES for the master which agents there are, which of them are lost, and what it sends them;
// Round decides about rounds. Pure: no socket, no timer, no clock. Server performs the actions.
//
// clang-format off
//  event \ agent    | unknown                    | with a line                | without a line
//  -----------------+----------------------------+----------------------------+---------------------------
//  Hello            | new session: Welcome       | Close the old line;        | Welcome; unacknowledged
//                   |                            |  Welcome; unacknowledged   |  notifications again
//                   |                            |  notifications again       |
//  Hello, older than| -                          | Close its line             | Close its line
//   the newest      |                            |                            |
//  message          | Close the line             | its lease is renewed;      | -
//                   |                            |  Round                     |
//  invalid message  | Refused                    | Refused; Round: it leaves; | -
//                   |                            |  > without a line          |
//  line lost        | -                          | it is gone, or has the end | -
//                   |                            |  of the job: > unknown;    |
//                   |                            |  else > without a line     |
//  Gone, on its line| -                          | > unknown; Round: vanished | -
//  Gone, on another | -                          | it is gone when its line   | > unknown; Round: vanished
//                   |                            |  is lost, too              |
//  lease over       | -                          | > unknown; Round: vanished | > unknown; Round: vanished
// clang-format on
//
// A lost line proves nothing: the network may have broken it, while the workers still run. A node
// is lost when its lease is over, or when it is proven that none of its processes runs any more:
// its agent says so, or, when the agent has ended and all its descendants are reaped, its guardian.
// The agent's earlier messages are on its line, and the master reads them first.
//
// A worker may fail because a node is lost, before the loss is proven. So a failure waits for the
// round's members that have no line when it comes, until each is back or lost: then the loss comes
// first. A failure does not wait for a member whose line is lost later.
//
// The master keeps nothing of a session that is over. So a later Hello and Join of it begin a
// session that the agent does not know. The agent's next Hello shows that by this master's ticket
// for the session before. Then the master ends that session at once, and repeats none of its
// messages.
//
// An agent that was killed with its guardian may be started again before its lease is over, as a
// pod of the same name. If it joins with the host and --node_rank of a node without a line, it
// waits for that node. The join is refused if the node is back, and takes its place if it is lost.

namespace ddprun::rendezvous {

namespace server_action {

struct Send {
  ConnectionId to;
  std::shared_ptr<const Reply> reply;  ///< shared by all that get the same
};
struct Close {
  ConnectionId connection;
};
/// The connection is of an agent of this job, and no stranger's.
struct Identified {
  ConnectionId connection;
  std::vector<std::string> addresses;  ///< as in message::Hello
};
/// The answer to the question who owns connections to the store.
struct Owned {
  ConnectionId connection;
  std::vector<bool> ours;
};
/// Empty the store for the next round.
struct EmptyStore {};
/// Tell workers that wait for lost ones.
struct NotifyWorkers {
  std::string sentence;
  std::optional<int> lost = {};  ///< the rank that is lost, if the sentence is about one
};
struct Warn {
  std::string sentence;
};
/// Leave this to the next master; recorded() follows.
struct Record {
  JobState state;
};

}  // namespace server_action

using ServerAction =
    std::variant<server_action::Send, server_action::Close, server_action::Identified,
                 server_action::Owned, server_action::EmptyStore, server_action::NotifyWorkers,
                 server_action::Warn, server_action::Record>;
using ServerActions = std::vector<ServerAction>;

/// The master's side of all sessions; the comment above has its table.
class ServerSessions {
 public:
  using Time = Lease::Time;

  struct Options : LeaseSpec {
    std::string run_id;  ///< agents of another job are refused
    RoundSpec round;
    std::string name;               ///< this master's, a new one after a restart
    size_t connections = SIZE_MAX;  ///< the most that its port can have at once
    bool tunnels = false;           ///< if used, each node and worker needs two descriptors
    std::string resident;           ///< session of the agent that ends with this master, if it
                                    ///< connects as the others do
    std::string sealed_secret;      ///< given to each agent that asks; empty: there is none
    /// The state that earlier masters left; nullopt: the master is not elected. An elected master
    /// records its state, too, before it announces it.
    std::optional<JobState> inherited;
    /// Describes a failure to the other workers of its round.
    std::function<std::string(const Failure& failure)> loss_text;
  };

  explicit ServerSessions(Options options);

  /// An agent that speaks protocol `version` has connected. `own`: it is in this process.
  ServerActions connected(ConnectionId id, std::string address, int version, bool own);

  /// An agent has connected that has not proven that it has the job's secret. It is not let in: it
  /// gets a refusal, or the sealed secret if it asks for that.
  ServerActions connected_without_secret(ConnectionId id, std::string address);

  /// A frame came on the connection, or bytes that cannot be one.
  ServerActions received(ConnectionId id, const Result<Message>& message, Time now);

  /// The connection was closed, reset or broken.
  ServerActions lost(ConnectionId id, Time now);

  /// The state of the last Record is safe.
  ServerActions recorded();

  /// Call it at `deadline`; harmless at any other time.
  ServerActions tick(Time now);

  /// When `tick` has something to do; nullopt: not before another event.
  std::optional<Time> deadline() const;

  /// Returns Round::waiting_for; once the job is over or was stopped, names the agents that have
  /// not acknowledged that.
  std::string waiting_for(Time now);

  /// The job is over or was stopped.
  bool is_ending() const { return round_.closed() || stop_asked_; }

  /// The job is over or was stopped, and every agent has acknowledged that or is lost.
  bool settled() const { return is_ending() && agents_.empty(); }

  const Round& round() const { return round_; }

  const std::string& name() const { return options_.name; }

 private:
  using SharedReply = std::shared_ptr<const Reply>;

  /// A message that waits until the fate of members is known.
  struct Held {
    NodeId sender;
    Message message;
    std::uint64_t lines_lost;  ///< when it came; 0: it waits only for those before it
  };

  struct Connection {
    std::string address;  ///< the other side's
    bool own = false;
    bool lacks_secret = false;
    bool refused = false;
    std::optional<NodeId> node;  ///< nullopt: no hello has come yet, or it was refused
  };

  /// An agent and its session, which outlives its connections.
  struct Agent {
    std::string session;
    std::string host;
    bool is_host = false;                    ///< as its join said
    bool own = false;                        ///< in this process: it needs no lease
    std::optional<ConnectionId> connection;  ///< nullopt: it is unreachable
    std::uint64_t hello = 0;                 ///< the newest one's number
    std::optional<std::string> gone;         ///< how it ended; its last messages may be on its line
    Delivery<SharedReply> delivery;
    /// Others' questions that it has not answered yet: the asker, and the asker's number.
    std::deque<std::pair<NodeId, std::uint64_t>> asked;
  };

  template <class Action>
  void act(Action action) {
    actions_.emplace_back(std::move(action));
  }
  ServerActions take() { return std::exchange(actions_, {}); }
  void send(ConnectionId to, Reply reply);
  void close(ConnectionId id);
  void refuse(ConnectionId id, const std::string& who, Refused refused);
  void refuse_stranger(ConnectionId id, const std::string& who, const std::string& sentence);

  // Sessions.
  void take_first(ConnectionId id, const Message& message, Time now);
  void take_without_secret(ConnectionId id, const Message& message);
  void take_hello(ConnectionId id, const message::Hello& hello, Time now);
  void end_late_session(const message::Hello& hello, Time now);
  std::optional<std::string> refusal(const message::Hello& hello) const;
  void disconnect(NodeId node);
  NodeId add_agent(const message::Hello& hello, bool own, Time now);
  void replace_connection(Agent& agent, NodeId node, ConnectionId id);
  std::string ticket(NodeId node) const;
  void welcome(NodeId node, bool resumed, std::uint64_t notifications_received);
  void take_gone(std::optional<NodeId> sender, const message::Gone& gone, Time now);
  void take_invalid(ConnectionId id, const Error& error, Time now);
  void refuse_agent(ConnectionId id, const std::string& sentence, Time now);
  void remove_agent(NodeId node, const std::string& reason, Time now);
  void end_session(NodeId node);
  void forget_session(NodeId node, const std::string& session);

  // Questions of agents to each other.
  void take_inquiry(NodeId node, const Inquiry& inquiry, Time now);
  void list_nodes(ConnectionId to, NodeId after, Time now);
  void ask_node(NodeId asker, const Inquire& inquire);
  void pass_answer(NodeId node, const Inform& inform);
  void stop_job();

  // Messages to Round, and its notifications.
  void take_message(NodeId node, const Message& message, Time now);
  void take_join(NodeId node, JoinRequest request, Time now);
  bool hold(NodeId node, const Message& message);
  const Node* member_out_of_reach(std::uint64_t lines_lost) const;
  void release_held(Time now);
  std::string waiting_for(NodeId node, Time now);
  bool has_predecessor(NodeId node, const JoinRequest& request) const;
  bool has_to_wait_for_place(NodeId node, const JoinRequest& request);
  void release_successors(Time now);
  void pass_to_round(NodeId node, const Message& message, Time now);
  void look_for_stall(Time now);
  void end_stalled_round(Time now);
  void tell_members(const Stalled& stalled);
  void deliver(Notifications notifications);
  bool has_to_be_recorded(const Notifications& notifications) const;
  void record();
  void announce(Notifications notifications);
  void notify_workers(const Notifications& notifications);
  void check_connections(const Layout& layout);
  void name_store_host(Notifications& notifications) const;
  void prepare(const Agent& agent, const Notification& notification);
  void evict(Time now);

  Options options_;
  ServerActions actions_;
  Round round_;
  Stall stall_;
  int store_round_ = 0;  ///< the round whose keys the store holds
  std::unordered_map<ConnectionId, Connection> connections_;
  std::unordered_map<NodeId, Agent> agents_;
  std::uint64_t lines_lost_ = 0;
  /// The agents without a connection, and the value of lines_lost_ when theirs was lost.
  std::map<NodeId, std::uint64_t> unreachable_;
  std::deque<Notifications> unannounced_;  ///< the first one waits until the state is recorded
  JobState recording_;
  JobState recorded_;
  std::deque<Held> held_;  ///< failures, and their senders' later messages; oldest first
  std::map<NodeId, JoinRequest> successors_;  ///< they wait for the place of a node without a line
  std::unordered_map<std::string, NodeId> sessions_;
  EvictionQueue evictions_;
  NodeId last_node_ = 0;
  bool stop_asked_ = false;
  bool warned_of_commands_ = false;  ///< a warning said that they differ
  std::string waiting_for_;          ///< for all agents that ask at about the same time
  Time waiting_for_made_{};
};

}  // namespace ddprun::rendezvous
