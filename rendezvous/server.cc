// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server.h"

#include <utility>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "base/text.h"
#include "rendezvous/membership_text.h"
#include "rendezvous/random_name.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// More nodes than there are hosts in any job: the memory of sessions is bounded.
constexpr size_t kMaxAgents = 65'536;

/// Notifications that an agent has not acknowledged, in bytes.
constexpr size_t kMaxUnacked = 1024 * 1024;

constexpr size_t kMaxHost = 256;  // of a host's name

/// How old the text of waiting_for may be: thousands of agents ask at the same moment.
constexpr std::chrono::milliseconds kWaitingForAge{100};

std::string peer_of(const tcp::socket& socket) {
  error_code gone;
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  if (gone) return "a node that is gone";
  const auto address = peer.address();
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string()
                : address.to_string();
}

/// Encodes the notifications of one event. Every Broken among them is the same, and every Closed:
/// thousands of nodes may get it, so it is encoded once.
class NotificationEncoder {
 public:
  std::string frame(Notification notification) {
    const bool common = std::holds_alternative<Broken>(notification) ||
                        std::holds_alternative<Closed>(notification);
    if (!common) return encode(Reply(std::move(notification)));
    const size_t kind = notification.index();
    if (kind_ != kind) common_ = encode(Reply(std::move(notification)));
    kind_ = kind;
    return common_;
  }

 private:
  size_t kind_ = std::variant_npos;
  std::string common_;
};

}  // namespace

Server::Server(asio::any_io_executor executor, Options options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      name_(random_name()),
      round_(options_.round, eviction_timeout(options_.lease)),
      store_(executor_),
      evictions_(eviction_timeout(options_.lease)),
      deadline_timer_(executor_),
      eviction_timer_(executor_),
      log_(executor_),
      listener_(
          executor_,
          {[this](tcp::socket socket, std::string_view received, int version, store::Guest guest) {
             accept(std::move(socket), received, version, std::move(guest));
           },
           [this](tcp::socket socket, std::string_view received, store::Guest guest) {
             store_.adopt(std::move(socket), received, std::move(guest));
           }}) {}

Result<std::unique_ptr<Server>> Server::listen(asio::any_io_executor executor,
                                               const std::vector<tcp::endpoint>& addresses,
                                               Options options) {
  std::unique_ptr<Server> server(new Server(std::move(executor), std::move(options)));
  if (const Result<> listening = server->listener_.listen(addresses); !listening) {
    return listening.error();
  }
  return server;
}

void Server::when_settled(std::function<void()> settled) {
  settled_ = std::move(settled);
  report_if_settled();
}

std::string Server::waiting_for() {
  if (!round_.closed()) {
    const auto now = Clock::now();
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

Result<StreamSocket> Server::connect() {
  asio::local::stream_protocol::socket ours(executor_);
  asio::local::stream_protocol::socket theirs(executor_);
  error_code failure;
  asio::local::connect_pair(ours, theirs, failure);
  if (failure) return os_error("cannot make a pair of sockets", failure.value());
  add_connection(std::move(ours), "this process", {}, {});
  return StreamSocket(std::move(theirs));
}

// Connections.

void Server::accept(tcp::socket socket, std::string_view received, int version,
                    store::Guest guest) {
  std::string address = peer_of(socket);
  const auto connection =
      add_connection(std::move(socket), std::move(address), received, std::move(guest));
  if (version == kProtocolVersion) return;
  refuse(*connection, connection->address,
         "it speaks protocol version " + std::to_string(kProtocolVersion) +
             ", this ddprun version " + std::to_string(version) +
             ": use the same ddprun on all nodes");
}

Server::Connections::iterator Server::add_connection(StreamSocket socket, std::string address,
                                                     std::string_view received,
                                                     store::Guest guest) {
  const auto connection = connections_.insert(
      connections_.end(),
      Connection{std::move(address), {}, false, false, std::move(guest), nullptr});
  connection->guest.on_eviction([this, connection] { connections_.erase(connection); });
  connection->channel = std::make_unique<ControlConnection>(
      std::move(socket), received,
      ControlConnection::Hooks{
          [this, connection](std::string_view body) { on_frame(connection, body); },
          [this, connection](const Error& error) { on_connection_lost(connection, error); }},
      kMaxFirstFrame);
  return connection;
}

void Server::on_frame(Connections::iterator connection, std::string_view body) {
  if (connection->refused) return;
  const Result<Message> message = decode_message(body);
  if (!message) {
    // An agent that was only disconnected would come back and send it again.
    refuse(*connection, connection->address,
           "it cannot decode a message: " + message.error().message);
    return connection->node ? remove_agent(*connection->node, "it sent an invalid message")
                            : on_connection_lost(connection, message.error());
  }
  if (connection->node) {
    connection->spoke = true;
    return on_message(*connection->node, *message);
  }
  if (const auto* hello = std::get_if<message::Hello>(&*message)) {
    return on_hello(connection, *hello);
  }
  on_connection_lost(connection, {Errc::protocol, "its first message is not a hello"});
}

void Server::on_connection_lost(Connections::iterator connection, const Error& error) {
  const std::optional<NodeId> node = connection->node;
  const bool spoke = connection->spoke;
  connections_.erase(connection);
  if (!node) return;
  agents_.at(*node).connection.reset();
  // Where the way there is broken, the agent may come back on another. It may also have closed this
  // connection for want of an answer, before its hello was read here.
  if ((error.code == Errc::unreachable || !spoke) && !round_.closed()) return;
  remove_agent(*node, error.code == Errc::protocol
                          ? "it sent an invalid message"
                          : "its agent was killed (" + error.message + ")");
}

/// The connection stays until the other side has read the reason and closes it.
void Server::refuse(Connection& connection, const std::string& who, const std::string& sentence) {
  connection.refused = true;
  log_.warning("refused " + who + " (" + connection.address + "): " + sentence);
  connection.channel->send(encode(Reply(Notification(Refused{sentence}))));
}

// Sessions.

void Server::on_hello(Connections::iterator connection, const message::Hello& hello) {
  if (const auto sentence = refusal(hello)) return refuse(*connection, hello.host, *sentence);
  const auto known = sessions_.find(hello.session);
  const bool resumed = known != sessions_.end();
  if (!resumed && agents_.size() >= kMaxAgents) {
    return refuse(*connection, hello.host, "the job has too many nodes");
  }
  const NodeId node = resumed ? known->second : add_agent(hello);
  replace_connection(node, connection);
  evictions_.received(node, Clock::now());  // the agent renews its lease, too
  welcome(agents_.at(node), resumed, hello.received);
}

std::optional<std::string> Server::refusal(const message::Hello& hello) const {
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

NodeId Server::add_agent(const message::Hello& hello) {
  const NodeId node = ++last_node_;
  Agent& agent = agents_[node];
  agent.session = hello.session;
  agent.host = cut(printable(hello.host), kMaxHost);
  sessions_.emplace(hello.session, node);
  const bool first = evictions_.empty();
  evictions_.add(node, Clock::now());
  if (first) wait_for_evictions();
  return node;
}

void Server::replace_connection(NodeId node, Connections::iterator connection) {
  Agent& agent = agents_.at(node);
  if (agent.connection) connections_.erase(*agent.connection);
  agent.connection = connection;
  connection->node = node;
  connection->guest.is_member();
  connection->channel->allow_long_frames();
}

void Server::welcome(Agent& agent, bool resumed, std::uint64_t notifications_received) {
  send(agent, reply::Welcome{name_, resumed, agent.delivery.received(), options_.heartbeat,
                             options_.lease, options_.round.max_restarts});
  agent.delivery.ack(notifications_received);
  for (const std::string& notification : agent.delivery.unacked()) {
    (*agent.connection)->channel->send(notification);
  }
}

void Server::remove_agent(NodeId node, const std::string& reason) {
  const auto agent = agents_.find(node);
  evictions_.remove(node);
  if (agent->second.connection) connections_.erase(*agent->second.connection);
  forget_session(node, agent->second.session);
  agents_.erase(agent);
  Notifications notifications = round_.vanish(node, reason, Clock::now());
  notify_workers(notifications);
  deliver(std::move(notifications));
  wait_for_deadline();
  report_if_settled();
}

/// An agent that does not acknowledge its notifications: its lease decides when it is lost. Should
/// it come back it is a new node.
void Server::end_session(NodeId node, Agent& agent) {
  if (round_.closed()) return remove_agent(node, "it does not acknowledge what it receives");
  log_.warning(agent.host + " does not acknowledge what it receives: disconnected");
  if (agent.connection) connections_.erase(*agent.connection);
  agent.connection.reset();
  agent.delivery = {};
  forget_session(node, agent.session);
}

/// It may be that of a newer node already.
void Server::forget_session(NodeId node, const std::string& session) {
  const auto found = sessions_.find(session);
  if (found != sessions_.end() && found->second == node) sessions_.erase(found);
}

// Messages to Round, and its notifications.

void Server::on_message(NodeId node, const Message& message) {
  Agent& agent = agents_.at(node);
  evictions_.received(node, Clock::now());
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    agent.delivery.ack(heartbeat->received);
    return send(agent, Heartbeat{agent.delivery.received()});
  }
  if (std::holds_alternative<message::Ask>(message)) {
    return send(agent, reply::Waiting{waiting_for()});
  }
  agent.delivery.receive();
  deliver(pass_to_round(node, agent, message));
  wait_for_deadline();
}

Notifications Server::pass_to_round(NodeId node, Agent& agent, const Message& message) {
  const auto now = Clock::now();
  if (const auto* join = std::get_if<message::Join>(&message)) {
    agent.is_host = join->request.is_host;
    if (join->request.hosting) {  // it cannot be silent without this server
      agent.in_process = true;
      evictions_.remove(node);
    }
    return round_.join(node, join->request, now);
  }
  if (const auto* fail = std::get_if<message::Fail>(&message)) {
    Notifications notifications = round_.fail(node, fail->round, fail->failure, now);
    notify_workers(notifications);
    return notifications;
  }
  if (const auto* succeed = std::get_if<message::Succeed>(&message)) {
    return round_.succeed(node, succeed->round, now);
  }
  if (std::holds_alternative<message::Leave>(message)) return round_.leave(node, now);
  return {};  // a second Hello
}

void Server::deliver(Notifications notifications) {
  name_store_host(notifications);
  NotificationEncoder encoder;
  for (auto& [node, notification] : notifications) {
    const auto found = agents_.find(node);
    if (found == agents_.end()) continue;
    Agent& agent = found->second;
    if (const auto* ready = std::get_if<Ready>(&notification)) empty_store_for(ready->layout.round);
    if (const auto* refused = std::get_if<Refused>(&notification)) {
      log_.warning("refused " + agent.host + ": " + refused->sentence);
    }
    std::string frame = encoder.frame(std::move(notification));
    if (agent.connection) (*agent.connection)->channel->send(frame);
    if (!agent.in_process) agent.delivery.add(std::move(frame));
    if (agent.delivery.unacked_bytes() > kMaxUnacked) end_session(node, agent);
  }
}

/// Workers that wait for a lost one would do so until they are killed, if they outlive SIGTERM.
/// Workers that are stopped for another reason still have all their peers.
void Server::notify_workers(const Notifications& notifications) {
  for (const auto& [node, notification] : notifications) {
    const auto* broken = std::get_if<Broken>(&notification);
    if (broken == nullptr) continue;
    const bool worker_failed = broken->root_cause && options_.loss_text;
    return store_.notify_failure(
        printable(worker_failed ? options_.loss_text(*broken->root_cause) : broken->reason));
  }
}

/// A store that rank 0 hosts is at the endpoint where node 0 lives there, else at the address that
/// node 0 connects from.
void Server::name_store_host(Notifications& notifications) const {
  std::string host;
  for (const auto& [node, notification] : notifications) {
    const auto* ready = std::get_if<Ready>(&notification);
    if (ready == nullptr || ready->layout.node_rank != 0 || ready->layout.store_port == 0) continue;
    const Agent& first = agents_.at(node);
    if (!first.is_host && first.connection) host = (*first.connection)->address;
  }
  if (host.empty()) return;
  for (auto& [node, notification] : notifications) {
    if (auto* ready = std::get_if<Ready>(&notification)) ready->layout.store_host = host;
  }
}

/// No member has a client of the old store left: nodes join when their workers are reaped.
void Server::empty_store_for(int round) {
  if (round == store_round_) return;
  store_.reset();
  store_round_ = round;
}

void Server::send(Agent& agent, const Reply& reply) const {
  if (agent.connection) (*agent.connection)->channel->send(encode(reply));
}

void Server::report_if_settled() {
  if (!round_.closed() || !agents_.empty() || !settled_) return;
  asio::post(executor_, std::exchange(settled_, nullptr));
}

// Time.

void Server::wait_for_deadline() {
  const std::optional<Round::Time> deadline = round_.deadline();
  if (!deadline) {
    deadline_timer_.cancel();
    return;
  }
  deadline_timer_.expires_at(*deadline);
  deadline_timer_.async_wait([this](error_code cancelled) {
    if (cancelled) return;
    deliver(round_.tick(Clock::now()));
    wait_for_deadline();
  });
}

void Server::wait_for_evictions() {
  const auto due = evictions_.next();
  if (!due) return;
  eviction_timer_.expires_at(*due);
  eviction_timer_.async_wait([this, due = *due](error_code cancelled) {
    if (!cancelled) evict(due);
  });
}

void Server::evict(Clock::time_point due) {
  const auto now = Clock::now();
  // This process was suspended: messages of the others wait to be read.
  if (now > due + options_.heartbeat) evictions_.all_received(now);
  while (const auto overdue = evictions_.overdue(now)) {
    remove_agent(overdue->node, "silent for " + duration_text(overdue->silent_for) + " (--lease " +
                                    duration_text(options_.lease) + ")");
  }
  wait_for_evictions();
}

}  // namespace ddprun::rendezvous
