// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server_sessions.h"

#include <algorithm>

#include "base/text.h"
#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

/// How old the text of waiting_for may be: thousands of agents ask at the same moment.
constexpr std::chrono::milliseconds kWaitingForAge{100};

/// More nodes than there are hosts in any job: the memory of sessions is bounded.
constexpr size_t kMaxAgents = 65'536;

/// Notifications that an agent has not acknowledged. It does with each heartbeat.
constexpr size_t kMaxUnacked = 1024;

constexpr size_t kMaxHost = 256;  // of a host's name

/// What a node that was started again waits for.
constexpr const char* kPredecessor =
    "the end of the lease of the ddprun that had this node_rank before (--lease)";

/// Of the whole round, which end_stalled_round said.
bool is_hang(const Message& message) {
  const auto* fail = std::get_if<message::Fail>(&message);
  return fail != nullptr && fail->failure.hung;
}

/// Makes letters of the notifications of one event. Every Broken among them is the same, every
/// Closed and every Stalled: thousands of nodes may get it, so there is one letter.
class LetterMaker {
 public:
  std::shared_ptr<const Reply> letter(Notification notification) {
    const size_t kind = notification.index();
    const bool common = std::holds_alternative<Broken>(notification) ||
                        std::holds_alternative<Closed>(notification) ||
                        std::holds_alternative<Stalled>(notification);
    if (common && kind == kind_) return common_;
    auto made = std::make_shared<const Reply>(std::move(notification));
    if (common) {
      kind_ = kind;
      common_ = made;
    }
    return made;
  }

 private:
  size_t kind_ = std::variant_npos;
  std::shared_ptr<const Reply> common_;
};

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
    refuse(id, connection.address,
           "it speaks protocol version " + std::to_string(kProtocolVersion) +
               ", this ddprun version " + std::to_string(version) +
               ": use the same ddprun on all nodes");
  }
  return take();
}

ServerActions ServerSessions::refused(ConnectionId id, const std::string& address,
                                      const std::string& sentence) {
  connections_[id].address = address;
  refuse(id, address, sentence);
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
void ServerSessions::refuse(ConnectionId id, const std::string& who, const std::string& sentence) {
  Connection& connection = connections_.at(id);
  connection.refused = true;
  act(server_action::Warn{
      printable("refused " + who + " (" + connection.address + "): " + sentence)});
  send(id, Notification(Refused{sentence}));
}

// Sessions.

void ServerSessions::take_first(ConnectionId id, const Message& message, Time now) {
  if (const auto* hello = std::get_if<message::Hello>(&message)) return take_hello(id, *hello, now);
  close(id);
  if (const auto* gone = std::get_if<message::Gone>(&message)) take_gone({}, *gone, now);
}

void ServerSessions::take_hello(ConnectionId id, const message::Hello& hello, Time now) {
  if (const auto sentence = refusal(hello)) return refuse(id, hello.host, *sentence);
  const auto known = sessions_.find(hello.session);
  const bool is_new = known == sessions_.end();
  if (is_new && agents_.size() >= kMaxAgents) {
    return refuse(id, hello.host, "the job has too many nodes");
  }
  const NodeId node = is_new ? add_agent(hello, connections_.at(id).own, now) : known->second;
  Agent& agent = agents_.at(node);
  const bool is_late =
      hello.number <= std::exchange(agent.hello, std::max(agent.hello, hello.number));
  if (is_late) return close(id);
  // An agent that was lost may miss the welcome that tells it so: what it counts is older.
  const bool resumed = !is_new && (hello.ticket.empty() || hello.ticket == ticket(node));
  replace_connection(agent, node, id);
  evictions_.received(node, now);  // the agent renews its lease, too
  welcome(node, resumed, hello.received);
  act(server_action::Identified{id, hello.addresses});
  release_successors(now);
  release_held(now);
}

std::optional<std::string> ServerSessions::refusal(const message::Hello& hello) const {
  if (hello.run_id != options_.run_id) {
    return "it belongs to another job than '" + hello.run_id + "' (--rdzv_id)";
  }
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
  unreachable_.insert(node);
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
  for (const Letter& letter : agent.delivery.unacked()) {
    act(server_action::Send{*agent.connection, letter});
  }
  if (stop_asked_) send(*agent.connection, Inquiry(StopJob{}));
}

/// Said by an agent on its line, or by a guardian on one of its own.
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
  refuse(id, connection.address, sentence);
  close(id);
}

/// Of an agent that has a session: its workers may run until it is gone or its lease is over. If it
/// were only disconnected it would come back and send the same again.
void ServerSessions::refuse_agent(ConnectionId id, const std::string& sentence, Time now) {
  const NodeId node = *std::exchange(connections_.at(id).node, std::nullopt);
  disconnect(node);
  refuse(id, agents_.at(node).host, sentence);
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

/// An agent that does not acknowledge its notifications: its lease decides when it is lost. Should
/// it come back it is a new node.
void ServerSessions::end_session(NodeId node) {
  Agent& agent = agents_.at(node);
  act(server_action::Warn{agent.host + " does not acknowledge what it receives: disconnected"});
  if (agent.connection) close(*agent.connection);
  disconnect(node);
  agent.delivery = {};
  forget_session(node, agent.session);
}

/// It may be that of a newer node already.
void ServerSessions::forget_session(NodeId node, const std::string& session) {
  const auto found = sessions_.find(session);
  if (found != sessions_.end() && found->second == node) sessions_.erase(found);
}

// Messages to Round, and its notifications.

void ServerSessions::take_message(NodeId node, const Message& message, Time now) {
  Agent& agent = agents_.at(node);
  evictions_.received(node, now);
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    agent.delivery.ack(heartbeat->received);
    return send(*agent.connection, Heartbeat{agent.delivery.received()});
  }
  if (std::holds_alternative<message::Ask>(message)) {
    return send(*agent.connection,
                reply::Waiting{successors_.contains(node) ? kPredecessor : waiting_for(now)});
  }
  if (const auto* owned = std::get_if<message::Owned>(&message)) {
    return act(server_action::Owned{*agent.connection, owned->ours});
  }
  if (const auto* gone = std::get_if<message::Gone>(&message)) return take_gone(node, *gone, now);
  if (const auto* inquiry = std::get_if<Inquiry>(&message)) {
    return take_inquiry(node, *inquiry, now);
  }
  agent.delivery.receive();
  if (has_to_wait(node, message)) return held_.push_back({node, message});
  pass_to_round(node, message, now);
}

bool ServerSessions::has_to_wait(NodeId node, const Message& message) const {
  constexpr size_t kMostOfOne = 4;  // it fails, joins, leaves
  if (held_.size() >= kMostOfOne * agents_.size()) return false;
  const bool fails = std::holds_alternative<message::Fail>(message);
  if (held_.empty()) return fails && is_any_member_unreachable();
  return fails || std::any_of(held_.begin(), held_.end(),
                              [node](const Held& held) { return held.sender == node; });
}

bool ServerSessions::is_any_member_unreachable() const {
  if (round_.phase() != Round::Phase::active) return false;
  return std::any_of(unreachable_.begin(), unreachable_.end(), [this](NodeId id) {
    const auto node = round_.nodes().find(id);
    return node != round_.nodes().end() && node->second.state == NodeState::running;
  });
}

void ServerSessions::release_held(Time now) {
  if (held_.empty() || is_any_member_unreachable()) return;
  for (const Held& held : std::exchange(held_, {})) {
    if (agents_.contains(held.sender)) pass_to_round(held.sender, held.message, now);
  }
}

/// Whether an agent without a line has the place that this node asks for, on the same host.
bool ServerSessions::has_predecessor(NodeId node, const JoinRequest& request) const {
  const Node* const holder = request.node_rank ? round_.holder_of(*request.node_rank) : nullptr;
  return holder != nullptr && holder->id != node && unreachable_.contains(holder->id) &&
         holder->request.host == name_text(request.host);
}

bool ServerSessions::has_to_wait_for_place(NodeId node, const JoinRequest& request) {
  if (round_.nodes().contains(node) || !has_predecessor(node, request)) return false;
  const bool is_new = successors_.insert_or_assign(node, request).second;
  if (!is_new) return true;
  act(server_action::Warn{agents_.at(node).host + " was started again as node_rank " +
                          std::to_string(*request.node_rank) +
                          ": it waits until its predecessor, which is out of reach, is lost "
                          "(--lease " +
                          duration_text(options_.lease) + ")"});
  return true;
}

/// When a node has a line again or is lost: nothing else ends their wait.
void ServerSessions::release_successors(Time now) {
  std::vector<std::pair<NodeId, JoinRequest>> free;
  std::erase_if(successors_, [&](auto& successor) {
    auto& [node, request] = successor;
    if (agents_.contains(node) && has_predecessor(node, request)) return false;
    free.emplace_back(node, std::move(request));
    return true;
  });
  for (auto& [node, request] : free) {
    if (agents_.contains(node)) take_join(node, std::move(request), now);
  }
}

void ServerSessions::take_join(NodeId node, JoinRequest request, Time now) {
  Agent& agent = agents_.at(node);
  // Before it waits, after which it may have no connection.
  if (request.hosting && !agent.own) {
    return refuse_agent(*agent.connection, "it says that it hosts the master, which this is", now);
  }
  if (has_to_wait_for_place(node, request)) return;
  const bool is_resident = !options_.resident.empty() && agent.session == options_.resident;
  request.hosting = agent.own || is_resident;
  request.is_host = request.is_host || is_resident;
  agent.is_host = request.is_host;
  deliver(round_.join(node, std::move(request), now));
}

void ServerSessions::pass_to_round(NodeId node, const Message& message, Time now) {
  if (const auto* join = std::get_if<message::Join>(&message)) {
    take_join(node, join->request, now);
  } else if (const auto* fail = std::get_if<message::Fail>(&message)) {
    Notifications notifications = round_.fail(node, fail->round, fail->failure, now);
    notify_workers(notifications);
    deliver(std::move(notifications));
  } else if (const auto* succeed = std::get_if<message::Succeed>(&message)) {
    deliver(round_.succeed(node, succeed->round, now));
    look_for_stall(now);
  } else if (const auto* progress = std::get_if<message::Progress>(&message)) {
    const auto known = round_.nodes().find(node);
    if (known == round_.nodes().end()) return;
    stall_.heard(known->second, progress->progress);
    look_for_stall(now);
  } else if (std::holds_alternative<message::Leave>(message)) {
    deliver(round_.leave(node, now));
  }  // else a second Hello
}

void ServerSessions::look_for_stall(Time now) {
  const Stall::News news = stall_.look(round_.nodes(), round_.running());
  if (news == Stall::News::none || round_.phase() != Round::Phase::active) return;
  if (news == Stall::News::over) {
    std::erase_if(held_, [](const Held& held) { return is_hang(held.message); });
    return tell_members({"ranks make progress again"});
  }
  if (options_.round.hang_timeout.count() > 0) return end_stalled_round(now);
  tell_members({stall_.text(round_.nodes())});
}

/// As if a node had reported it, so that the loss of another one still comes first.
void ServerSessions::end_stalled_round(Time now) {
  const Failure failure = stall_.failure(round_.nodes());
  const NodeId node = Stall::node_of(failure.rank, round_.nodes());
  const Message fail = message::Fail{round_.nodes().at(node).last_round, failure};
  if (has_to_wait(node, fail)) return held_.push_back({node, fail});
  pass_to_round(node, fail, now);
}

void ServerSessions::tell_members(const Stalled& stalled) {
  Notifications notifications;
  for (const auto& [id, node] : round_.nodes()) {
    const bool is_member = node.state == NodeState::running || node.state == NodeState::finished;
    if (is_member) notifications.emplace_back(id, stalled);
  }
  deliver(std::move(notifications));
}

/// In the order of the events, also where one has to wait.
void ServerSessions::deliver(Notifications notifications) {
  if (notifications.empty()) return;
  const bool is_first = unannounced_.empty();
  if (is_first && !has_to_be_recorded(notifications)) return announce(std::move(notifications));
  unannounced_.push_back(std::move(notifications));
  if (is_first) record();
}

void ServerSessions::record() {
  recording_ = round_.state();
  act(server_action::Record{recording_});
}

ServerActions ServerSessions::recorded() {
  recorded_ = recording_;
  while (!unannounced_.empty() && !has_to_be_recorded(unannounced_.front())) {
    announce(std::move(unannounced_.front()));
    unannounced_.pop_front();
  }
  if (!unannounced_.empty()) record();
  return take();
}

/// A round begins, or the job ends.
bool ServerSessions::has_to_be_recorded(const Notifications& notifications) const {
  if (!options_.inherited) return false;
  const JobState state = round_.state();
  const bool is_known =
      recorded_.round == state.round && recorded_.ending.has_value() == state.ending.has_value();
  return !is_known && std::any_of(notifications.begin(), notifications.end(), [](const auto& one) {
    return std::holds_alternative<Ready>(one.second) || std::holds_alternative<Closed>(one.second);
  });
}

void ServerSessions::announce(Notifications notifications) {
  name_store_host(notifications);
  LetterMaker letters;
  for (auto& [node, notification] : notifications) {
    const auto found = agents_.find(node);
    if (found == agents_.end()) continue;
    Agent& agent = found->second;
    prepare(agent, notification);
    const Letter letter = letters.letter(std::move(notification));
    if (agent.connection) act(server_action::Send{*agent.connection, letter});
    if (!agent.own) agent.delivery.add(letter);
    if (agent.delivery.unacked().size() > kMaxUnacked) end_session(node);
  }
}

void ServerSessions::prepare(const Agent& agent, const Notification& notification) {
  if (const auto* refused = std::get_if<Refused>(&notification)) {
    act(server_action::Warn{"refused " + agent.host + ": " + printable(refused->sentence)});
  }
  const auto* ready = std::get_if<Ready>(&notification);
  if (ready == nullptr) return;
  if (ready->layout.node_rank == 0) check_connections(ready->layout);
  if (ready->layout.round == store_round_) return;
  // No member has a client of the old store left: nodes join when their workers are reaped.
  store_round_ = ready->layout.round;
  act(server_action::EmptyStore{});
}

/// Workers that find no room wait, and then fail for a reason that does not name it.
void ServerSessions::check_connections(const Layout& layout) {
  const bool has_store = layout.store_port == 0;
  const int needed = layout.node_count + (has_store ? layout.world_size : 0);
  if (static_cast<size_t>(needed) <= options_.connections) return;
  act(server_action::Warn{"this job needs " + std::to_string(needed) +
                          " connections to its master, which can have " +
                          std::to_string(options_.connections) +
                          ": raise the hard limit of open files on its host (ulimit -Hn)"});
}

/// Workers that wait for a lost one would do so until they are killed, if they outlive SIGTERM.
/// Workers that are stopped for another reason still have all their peers.
void ServerSessions::notify_workers(const Notifications& notifications) {
  for (const auto& [node, notification] : notifications) {
    const auto* broken = std::get_if<Broken>(&notification);
    if (broken == nullptr) continue;
    const bool worker_failed = broken->root_cause && options_.loss_text;
    return act(server_action::NotifyWorkers{
        printable(worker_failed ? options_.loss_text(*broken->root_cause) : broken->reason)});
  }
}

/// A store that rank 0 hosts is at the endpoint where node 0 lives there, else at the address that
/// node 0 connects from.
void ServerSessions::name_store_host(Notifications& notifications) const {
  std::string host;
  for (const auto& [node, notification] : notifications) {
    const auto* ready = std::get_if<Ready>(&notification);
    if (ready == nullptr || ready->layout.node_rank != 0 || ready->layout.store_port == 0) continue;
    const auto first = agents_.find(node);  // it may be lost since the round was decided
    if (first == agents_.end() || first->second.is_host || !first->second.connection) continue;
    host = connections_.at(*first->second.connection).address;
  }
  if (host.empty()) return;
  for (auto& [node, notification] : notifications) {
    if (auto* ready = std::get_if<Ready>(&notification)) ready->layout.store_host = host;
  }
}

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
  // This process was suspended: messages of the others wait to be read.
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
