// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/server_sessions.h"

#include <algorithm>

#include "base/text.h"
#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

/// The age up to which a text of waiting_for() is used: thousands of agents ask at once.
constexpr std::chrono::milliseconds kWaitingForAge{100};

/// More nodes than any job has hosts; it bounds the memory of sessions.
constexpr size_t kMaxAgents = 65'536;

constexpr size_t kMaxHost = 256;  // of a host's name

constexpr const char* kNeedsSecret =
    "it admits only nodes with its secret, and this one has none: give it the same --secret_file "
    "or DDPRUN_SECRET";
constexpr const char* kNeedsMunge =
    "it admits only nodes with its secret, which they get by munge, and this one has no munge "
    "(--log_level debug says why): start munged on its host, or give all nodes one --secret_file";
constexpr const char* kHasNoMunge =
    "the master's job has no secret, and this node gets its own by munge: start munged on the "
    "master's host (its --log_level debug says what is missing), or give all nodes one "
    "--secret_file";

}  // namespace

ServerSessions::ServerSessions(Options options)
    : options_(std::move(options)),
      round_(options_.round, eviction_timeout(options_.lease), options_.name, options_.inherited),
      recorded_(options_.inherited.value_or(JobState())),
      evictions_(eviction_timeout(options_.lease)) {}

void ServerSessions::send(ConnectionId to, Reply reply) {
  act(server_action::Send{to, std::make_shared<const Reply>(std::move(reply))});
}

// Connections.

ServerActions ServerSessions::connected(ConnectionId id, std::string address, int version,
                                        bool own) {
  Connection& connection = connections_[id];
  connection.address = std::move(address);
  connection.own = own;
  if (version != kProtocolVersion) {
    refuse_stranger(id, connection.address,
                    "its protocol version is " + std::to_string(version) + ", the master's " +
                        std::to_string(kProtocolVersion) + ": use the same ddprun on all nodes");
  }
  return take();
}

ServerActions ServerSessions::connected_without_secret(ConnectionId id, std::string address) {
  Connection& connection = connections_[id];
  connection.address = std::move(address);
  connection.lacks_secret = true;
  if (options_.sealed_secret.empty()) refuse_stranger(id, connection.address, kNeedsSecret);
  return take();
}

ServerActions ServerSessions::received(ConnectionId id, const Result<Message>& message, Time now) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.refused) return {};
  if (!message) {
    take_invalid(id, message.error(), now);
  } else if (const auto node = found->second.node) {
    take_message(*node, *message, now);
  } else {
    take_first(id, *message, now);
  }
  if (round_.phase() != Round::Phase::active) release_held(now);
  return take();
}

ServerActions ServerSessions::lost(ConnectionId id, Time now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return {};
  const std::optional<NodeId> node = found->second.node;
  close(id);
  if (!node) return take();
  Agent& agent = agents_.at(*node);
  disconnect(*node);
  const bool has_end = round_.closed() && agent.delivery.unacked().empty();
  if (agent.gone) {
    remove_agent(*node, std::string(*agent.gone), now);
  } else if (has_end || agent.own) {
    remove_agent(*node, "its connection was closed", now);
  }
  return take();
}

void ServerSessions::close(ConnectionId id) {
  connections_.erase(id);
  act(server_action::Close{id});
}

/// The connection stays until the other side has read the reason and closes it.
void ServerSessions::refuse(ConnectionId id, const std::string& who, Refused refused) {
  Connection& connection = connections_.at(id);
  connection.refused = true;
  const std::string node =
      who == connection.address ? "a node at " + who : who + " (" + connection.address + ")";
  act(server_action::Warn{printable("refused " + node + ": " + refused.sentence)});
  send(id, Notification(std::move(refused)));
}

void ServerSessions::refuse_stranger(ConnectionId id, const std::string& who,
                                     const std::string& sentence) {
  refuse(id, who, Refused{sentence, false, true});
}

// Sessions.

void ServerSessions::take_first(ConnectionId id, const Message& message, Time now) {
  const Connection& connection = connections_.at(id);
  if (connection.lacks_secret) return take_without_secret(id, message);
  if (std::holds_alternative<message::GetSecret>(message)) {
    return refuse_stranger(id, connection.address, kHasNoMunge);
  }
  if (const auto* hello = std::get_if<message::Hello>(&message)) return take_hello(id, *hello, now);
  close(id);
  if (const auto* gone = std::get_if<message::Gone>(&message)) take_gone({}, *gone, now);
}

/// A sealed secret tells nothing to a process that cannot open it. The other side closes the line.
void ServerSessions::take_without_secret(ConnectionId id, const Message& message) {
  Connection& connection = connections_.at(id);
  if (!std::holds_alternative<message::GetSecret>(message)) {
    return refuse_stranger(id, connection.address, kNeedsMunge);
  }
  connection.refused = true;  // nothing else is read from it
  send(id, reply::SealedSecret{options_.sealed_secret});
}

void ServerSessions::take_hello(ConnectionId id, const message::Hello& hello, Time now) {
  if (hello.run_id != options_.run_id) {
    return refuse_stranger(id, hello.host,
                           "it belongs to another job than '" + hello.run_id + "' (--rdzv_id)");
  }
  if (const auto sentence = refusal(hello)) return refuse(id, hello.host, {*sentence});
  end_late_session(hello, now);
  const auto known = sessions_.find(hello.session);
  const bool is_new = known == sessions_.end();
  if (is_new && agents_.size() >= kMaxAgents) {
    return refuse(id, hello.host, {"the job has too many nodes"});
  }
  const NodeId node = is_new ? add_agent(hello, connections_.at(id).own, now) : known->second;
  Agent& agent = agents_.at(node);
  const bool is_late =
      hello.number <= std::exchange(agent.hello, std::max(agent.hello, hello.number));
  if (is_late) return close(id);
  // An agent that another master has welcomed since counts that master's messages.
  const bool resumed = !is_new && (hello.ticket.empty() || hello.ticket == ticket(node));
  if (!hello.ticket.empty() && !hello.ticket.starts_with(options_.name + "/")) {
    round_.had_another_master(node, now);
  }
  replace_connection(agent, node, id);
  evictions_.received(node, now);  // the agent renews its lease, too
  welcome(node, resumed, hello.received);
  act(server_action::Identified{id, hello.addresses});
  release_successors(now);
  release_held(now);
}

/// A lost agent may miss the welcome that says so, and its first hello and join may come late. Then
/// it runs no worker of the session that they began, and was not lost again. If another master
/// welcomed it, it may run workers, until it joins.
void ServerSessions::end_late_session(const message::Hello& hello, Time now) {
  const auto known = sessions_.find(hello.session);
  if (known == sessions_.end() || !hello.ticket.starts_with(options_.name + "/")) return;
  const NodeId node = known->second;
  if (hello.number <= agents_.at(node).hello || hello.ticket == ticket(node)) return;
  Notifications notifications = round_.leave(node, now);
  notify_workers(notifications);
  deliver(std::move(notifications));
  remove_agent(node, "its agent began another session", now);
}

std::optional<std::string> ServerSessions::refusal(const message::Hello& hello) const {
  RoundSpec theirs;
  theirs.min_nodes = hello.min_nodes;
  theirs.max_nodes = hello.max_nodes;
  const std::string ours = nnodes_text(options_.round);
  if (nnodes_text(theirs) == ours) return std::nullopt;
  return "its job has --nnodes " + ours + ", this node was started with " + nnodes_text(theirs);
}

NodeId ServerSessions::add_agent(const message::Hello& hello, bool own, Time now) {
  const NodeId node = ++last_node_;
  Agent& agent = agents_[node];
  agent.session = hello.session;
  agent.host = cut(printable(hello.host), kMaxHost);
  agent.own = own;
  sessions_.emplace(hello.session, node);
  if (!own) evictions_.add(node, now);
  return node;
}

void ServerSessions::replace_connection(Agent& agent, NodeId node, ConnectionId id) {
  if (agent.connection) close(*agent.connection);
  agent.connection = id;
  unreachable_.erase(node);
  connections_.at(id).node = node;
}

void ServerSessions::disconnect(NodeId node) {
  agents_.at(node).connection.reset();
  unreachable_.try_emplace(node, ++lines_lost_);
}

std::string ServerSessions::ticket(NodeId node) const {
  return options_.name + "/" + std::to_string(node);
}

void ServerSessions::welcome(NodeId node, bool resumed, std::uint64_t notifications_received) {
  Agent& agent = agents_.at(node);
  send(*agent.connection,
       reply::Welcome{options_.name, resumed, agent.delivery.received(), options_.heartbeat,
                      options_.lease, options_.round.max_restarts, ticket(node),
                      options_.round.hang_timeout});
  agent.delivery.ack(notifications_received);
  for (const SharedReply& shared : agent.delivery.unacked()) {
    act(server_action::Send{*agent.connection, shared});
  }
  if (stop_asked_) send(*agent.connection, Inquiry(StopJob{}));
}

/// The agent says it on its line, or its guardian on another one.
void ServerSessions::take_gone(std::optional<NodeId> sender, const message::Gone& gone, Time now) {
  const auto known = sessions_.find(gone.session);
  if (known == sessions_.end()) return;
  const NodeId node = known->second;
  Agent& agent = agents_.at(node);
  agent.gone = printable(gone.how);
  if (sender == node || !agent.connection) remove_agent(node, std::string(*agent.gone), now);
}

void ServerSessions::take_invalid(ConnectionId id, const Error& error, Time now) {
  const std::string sentence = "it cannot decode a message: " + error.message;
  Connection& connection = connections_.at(id);
  if (connection.node) return refuse_agent(id, sentence, now);
  refuse(id, connection.address, {sentence});
  close(id);
}

/// Refuses an agent that has a session. Its workers may run until it is gone or its lease is over.
/// If the master only disconnected it, it would come back and send the same again.
void ServerSessions::refuse_agent(ConnectionId id, const std::string& sentence, Time now) {
  const NodeId node = *std::exchange(connections_.at(id).node, std::nullopt);
  disconnect(node);
  refuse(id, agents_.at(node).host, {sentence});
  Notifications notifications = round_.leave(node, now);
  notify_workers(notifications);
  deliver(std::move(notifications));
}

void ServerSessions::remove_agent(NodeId node, const std::string& reason, Time now) {
  const auto agent = agents_.find(node);
  evictions_.remove(node);
  if (agent->second.connection) close(*agent->second.connection);
  forget_session(node, agent->second.session);
  agents_.erase(agent);
  unreachable_.erase(node);
  Notifications notifications = round_.vanish(node, reason, now);
  notify_workers(notifications);
  deliver(std::move(notifications));
  release_successors(now);
  release_held(now);
}

/// Ends the session of an agent that does not acknowledge its notifications; its lease decides when
/// it is lost. If it comes back, it is a new node.
void ServerSessions::end_session(NodeId node) {
  Agent& agent = agents_.at(node);
  act(server_action::Warn{agent.host + " does not acknowledge what it receives: disconnected"});
  if (agent.connection) close(*agent.connection);
  disconnect(node);
  agent.delivery = {};
  forget_session(node, agent.session);
}

/// The name may already belong to a newer session.
void ServerSessions::forget_session(NodeId node, const std::string& session) {
  const auto found = sessions_.find(session);
  if (found != sessions_.end() && found->second == node) sessions_.erase(found);
}

// Waiting.

std::string ServerSessions::waiting_for(Time now) {
  if (!is_ending()) {
    if (waiting_for_.empty() || now - waiting_for_made_ > kWaitingForAge) {
      waiting_for_ = round_.waiting_for();
      waiting_for_made_ = now;
    }
    return waiting_for_;
  }
  if (agents_.empty()) return "";
  return agents_.begin()->second.host +
         (agents_.size() > 1 ? " and " + std::to_string(agents_.size() - 1) + " more" : "") +
         " to acknowledge the end of the job";
}

// Time.

std::optional<ServerSessions::Time> ServerSessions::deadline() const {
  const auto round = round_.deadline();
  const auto eviction = evictions_.next();
  if (!round || !eviction) return round ? round : eviction;
  return std::min(*round, *eviction);
}

ServerActions ServerSessions::tick(Time now) {
  evict(now);
  const auto round = round_.deadline();
  if (round && *round <= now) deliver(round_.tick(now));
  if (round_.phase() != Round::Phase::active) release_held(now);
  return take();
}

void ServerSessions::evict(Time now) {
  // This process was suspended: the agents' messages wait to be read.
  const auto due = evictions_.next();
  if (due && now > *due + options_.heartbeat) evictions_.all_received(now);
  while (const auto overdue = evictions_.overdue(now)) {
    remove_agent(overdue->node,
                 "silent for " + duration_text(overdue->silent_for) + " (--lease " +
                     duration_text(options_.lease) + ")",
                 now);
  }
}

}  // namespace ddprun::rendezvous
