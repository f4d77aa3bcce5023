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

/// Connections that greet and say no more are strangers for ever; this many may.
constexpr size_t kMaxStrangers = 16'384;

/// So old may be the answer to "for whom do I wait": thousands ask in the same moment.
constexpr std::chrono::milliseconds kRollCallAge{100};

std::string peer_of(const tcp::socket& socket) {
  error_code gone;
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  if (gone) return "a node that is gone";
  const auto address = peer.address();
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string()
                : address.to_string();
}

/// Frames of the notifications of one event. Every Broken among them is the same, and every Closed:
/// thousands of nodes may get it, so it is encoded once.
class Frames {
 public:
  std::string of(Notification notification) {
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
      round_(options_.round),
      store_(executor_),
      deadline_(executor_),
      silence_(executor_),
      listener_(executor_, {[this](tcp::socket socket, std::string_view received, int version) {
                              admit_newcomer(std::move(socket), received, version);
                            },
                            [this](tcp::socket socket, std::string_view received) {
                              store_.adopt(std::move(socket), received);
                            }}) {}

Result<std::unique_ptr<Server>> Server::listen(asio::any_io_executor executor,
                                               const Endpoint& endpoint, Options options) {
  options.round.lease = options.lease + options.lease / 5;
  std::unique_ptr<Server> server(new Server(std::move(executor), std::move(options)));
  if (const Result<> listening = server->listener_.listen(endpoint); !listening) {
    return listening.error();
  }
  return server;
}

void Server::when_settled(std::function<void()> settled) {
  settled_ = std::move(settled);
  tell_if_settled();
}

std::string Server::waiting_for() {
  if (!round_.closed()) {
    const auto now = Clock::now();
    if (roll_call_.empty() || now - roll_call_made_ > kRollCallAge) {
      roll_call_ = round_.waiting_for();
      roll_call_made_ = now;
    }
    return roll_call_;
  }
  if (agents_.empty()) return "";
  return agents_.begin()->second.host +
         (agents_.size() > 1 ? " and " + std::to_string(agents_.size() - 1) + " more" : "") +
         " to hear that the job is over";
}

Result<StreamSocket> Server::connect() {
  asio::local::stream_protocol::socket ours(executor_);
  asio::local::stream_protocol::socket theirs(executor_);
  error_code failure;
  asio::local::connect_pair(ours, theirs, failure);
  if (failure) return os_error("cannot make a pair of sockets", failure.value());
  admit(std::move(ours), "this process", {});
  return StreamSocket(std::move(theirs));
}

void Server::admit_newcomer(tcp::socket socket, std::string_view received, int version) {
  if (strangers_ >= kMaxStrangers) return;
  std::string address = peer_of(socket);
  const auto line = admit(std::move(socket), std::move(address), received);
  if (version == kProtocolVersion) return;
  refuse(*line, line->address,
         "it speaks protocol version " + std::to_string(kProtocolVersion) +
             ", this ddprun version " + std::to_string(version) +
             ": use the same ddprun on all nodes");
}

Server::Lines::iterator Server::admit(StreamSocket socket, std::string address,
                                      std::string_view received) {
  ++strangers_;
  const auto line =
      lines_.insert(lines_.end(), Line{std::move(address), {}, false, false, nullptr});
  line->connection = std::make_unique<ControlConnection>(
      std::move(socket), received,
      ControlConnection::Hooks{[this, line](std::string_view body) { on_frame(line, body); },
                               [this, line](const Error& error) { on_lost(line, error); }});
  return line;
}

void Server::on_frame(Lines::iterator line, std::string_view body) {
  if (line->refused) return;
  const Result<Message> message = decode_message(body);
  if (!message) {
    // An agent that we only hung up on would come back and say it again.
    refuse(*line, line->address, "it cannot make sense of a message: " + message.error().message);
    return line->node ? gone(*line->node, "it sent nonsense") : on_lost(line, message.error());
  }
  if (line->node) {
    line->spoke = true;
    return on_message(*line->node, *message);
  }
  if (const auto* hello = std::get_if<message::Hello>(&*message)) return introduce(line, *hello);
  on_lost(line, {Errc::protocol, "its first word is no hello"});
}

void Server::on_lost(Lines::iterator line, const Error& error) {
  const std::optional<NodeId> node = line->node;
  const bool spoke = line->spoke;
  if (!node) --strangers_;
  lines_.erase(line);
  if (!node) return;
  agents_.at(*node).line.reset();
  // Where the way there is broken, it may come back on another. And it may have closed this one for
  // want of an answer, before we read its hello.
  if ((error.code == Errc::unreachable || !spoke) && !round_.closed()) return;
  gone(*node, error.code == Errc::protocol ? "it sent nonsense"
                                           : "its agent was killed (" + error.message + ")");
}

void Server::introduce(Lines::iterator line, const message::Hello& hello) {
  if (const auto sentence = refusal(hello)) return refuse(*line, hello.host, *sentence);
  const auto known = sessions_.find(hello.session);
  const bool resumed = known != sessions_.end();
  const NodeId node = resumed ? known->second : add_agent(hello);
  replace_line(node, line);
  renew_lease(agents_.at(node));
  welcome(agents_.at(node), resumed, hello.received);
}

std::optional<std::string> Server::refusal(const message::Hello& hello) const {
  if (hello.run_id != options_.run_id) {
    return "it belongs to the job '" + options_.run_id + "', not to '" + hello.run_id +
           "' (--rdzv_id)";
  }
  RoundSpec theirs;
  theirs.min_nodes = hello.min_nodes;
  theirs.max_nodes = hello.max_nodes;
  const std::string ours = nnodes_text(options_.round);
  if (nnodes_text(theirs) == ours) return std::nullopt;
  return "its job has --nnodes " + ours + ", this node was started with " + nnodes_text(theirs);
}

/// The connection stays until the other side has read why and closes it.
void Server::refuse(Line& line, const std::string& who, const std::string& sentence) {
  line.refused = true;
  log::warning(printable("refused " + who + " (" + line.address + "): " + sentence));
  line.connection->send(encode(Reply(Notification(Refused{sentence}))));
}

NodeId Server::add_agent(const message::Hello& hello) {
  const NodeId node = ++last_node_;
  Agent& agent = agents_[node];
  agent.session = hello.session;
  agent.host = printable(hello.host);
  agent.heard = Clock::now();
  agent.quiet = quiet_.insert(quiet_.end(), node);
  sessions_.emplace(hello.session, node);
  if (quiet_.size() == 1) wait_for_silence();
  return node;
}

void Server::replace_line(NodeId node, Lines::iterator line) {
  Agent& agent = agents_.at(node);
  if (agent.line) lines_.erase(*agent.line);
  agent.line = line;
  line->node = node;
  --strangers_;
}

void Server::welcome(Agent& agent, bool resumed, std::uint64_t notifications_received) {
  send(agent, reply::Welcome{name_, resumed, agent.received, options_.heartbeat, options_.lease,
                             options_.round.max_restarts});
  agent.notifications.ack(notifications_received);
  for (const std::string& notification : agent.notifications.unacked()) {
    (*agent.line)->connection->send(notification);
  }
}

/// As the agent does with each answer: our lease has to end after its own.
void Server::renew_lease(Agent& agent) {
  agent.heard = Clock::now();
  if (agent.quiet) quiet_.splice(quiet_.end(), quiet_, *agent.quiet);
}

void Server::send(Agent& agent, const Reply& reply) const {
  if (agent.line) (*agent.line)->connection->send(encode(reply));
}

void Server::on_message(NodeId node, const Message& message) {
  Agent& agent = agents_.at(node);
  renew_lease(agent);
  if (const auto* beat = std::get_if<Heartbeat>(&message)) {
    agent.notifications.ack(beat->received);
    return send(agent, Heartbeat{agent.received});
  }
  if (std::holds_alternative<message::Ask>(message)) {
    return send(agent, reply::Waiting{waiting_for()});
  }
  ++agent.received;
  deliver(answer(node, agent, message));
  wait_for_deadline();
}

Notifications Server::answer(NodeId node, Agent& agent, const Message& message) {
  const auto now = Clock::now();
  if (const auto* join = std::get_if<message::Join>(&message)) {
    agent.is_host = join->request.is_host;
    if (join->request.hosting && agent.quiet) {  // it cannot be silent without us
      quiet_.erase(*agent.quiet);
      agent.quiet.reset();
    }
    return round_.join(node, join->request, now);
  }
  if (const auto* fail = std::get_if<message::Fail>(&message)) {
    Notifications notifications = round_.fail(node, fail->round, fail->failure, now);
    tell_workers(notifications);
    return notifications;
  }
  if (const auto* succeed = std::get_if<message::Succeed>(&message)) {
    return round_.succeed(node, succeed->round, now);
  }
  if (std::holds_alternative<message::Leave>(message)) return round_.leave(node, now);
  return {};  // a second Hello
}

void Server::gone(NodeId node, const std::string& how) {
  const auto agent = agents_.find(node);
  if (agent->second.quiet) quiet_.erase(*agent->second.quiet);
  if (agent->second.line) lines_.erase(*agent->second.line);
  sessions_.erase(agent->second.session);
  agents_.erase(agent);
  Notifications notifications = round_.vanish(node, how, Clock::now());
  tell_workers(notifications);
  deliver(std::move(notifications));
  wait_for_deadline();
  tell_if_settled();
}

/// Workers that wait for one that is gone would do so until they are killed, if they outlive
/// SIGTERM. Those who are stopped for another reason have all their peers still.
void Server::tell_workers(const Notifications& notifications) {
  for (const auto& [node, notification] : notifications) {
    const auto* broken = std::get_if<Broken>(&notification);
    if (broken == nullptr) continue;
    const bool worker_failed = broken->root_cause && options_.loss_text;
    return store_.ring(
        printable(worker_failed ? options_.loss_text(*broken->root_cause) : broken->reason));
  }
}

void Server::deliver(Notifications notifications) {
  name_store_host(notifications);
  Frames frames;
  for (auto& [node, notification] : notifications) {
    const auto found = agents_.find(node);
    if (found == agents_.end()) continue;
    Agent& agent = found->second;
    if (const auto* ready = std::get_if<Ready>(&notification)) begin_round(ready->layout.round);
    if (const auto* refused = std::get_if<Refused>(&notification)) {
      log::warning("refused " + agent.host + ": " + printable(refused->sentence));
    }
    std::string frame = frames.of(std::move(notification));
    if (agent.line) (*agent.line)->connection->send(frame);
    if (agent.quiet) agent.notifications.add(std::move(frame));
  }
}

/// A store that rank 0 hosts is at the endpoint where node 0 lives there, else where it is seen.
void Server::name_store_host(Notifications& notifications) const {
  std::string host;
  for (const auto& [node, notification] : notifications) {
    const auto* ready = std::get_if<Ready>(&notification);
    if (ready == nullptr || ready->layout.node_rank != 0 || ready->layout.store_port == 0) continue;
    const Agent& first = agents_.at(node);
    if (!first.is_host && first.line) host = (*first.line)->address;
  }
  if (host.empty()) return;
  for (auto& [node, notification] : notifications) {
    if (auto* ready = std::get_if<Ready>(&notification)) ready->layout.store_host = host;
  }
}

/// No member has a client of the old store left: nodes join when their workers are reaped.
void Server::begin_round(int round) {
  if (round == store_round_) return;
  store_.reset();
  store_round_ = round;
}

void Server::tell_if_settled() {
  if (!round_.closed() || !agents_.empty() || !settled_) return;
  asio::post(executor_, std::exchange(settled_, nullptr));
}

void Server::wait_for_deadline() {
  const std::optional<Round::Time> deadline = round_.deadline();
  if (!deadline) {
    deadline_.cancel();
    return;
  }
  deadline_.expires_at(*deadline);
  deadline_.async_wait([this](error_code cancelled) {
    if (cancelled) return;
    deliver(round_.tick(Clock::now()));
    wait_for_deadline();
  });
}

void Server::wait_for_silence() {
  if (quiet_.empty()) return;
  const auto due = agents_.at(quiet_.front()).heard + patience();
  silence_.expires_at(due);
  silence_.async_wait([this, due](error_code cancelled) {
    if (!cancelled) on_silence(due);
  });
}

void Server::on_silence(Clock::time_point due) {
  const auto now = Clock::now();
  if (now > due + options_.heartbeat) {
    // It was this process that stood still: the words of the others wait to be read.
    for (const NodeId node : quiet_) agents_.at(node).heard = now;
  }
  while (!quiet_.empty()) {
    const NodeId node = quiet_.front();
    const auto heard = agents_.at(node).heard;
    if (heard + patience() > now) break;
    gone(node, "silent for " + duration_text(now - heard) + " (--lease " +
                   duration_text(options_.lease) + ")");
  }
  wait_for_silence();
}

}  // namespace ddprun::rendezvous
