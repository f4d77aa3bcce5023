// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/server.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/secret.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// An empty frame of a stranger takes as much time as one of so many bytes.
constexpr size_t kShortestCounted = 512;

std::string peer_of(const tcp::socket& socket) {
  error_code gone;
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  if (gone) return "a node that is gone";
  return plain_text(peer.address());
}

ServerSessions::Options sessions_options(const Server::Options& options) {
  ServerSessions::Options sessions;
  static_cast<LeaseSpec&>(sessions) = options;
  sessions.run_id = options.run_id;
  sessions.round = options.round;
  sessions.name = random_name();
  sessions.connections = Listener::most_connections();
  sessions.tunnels = options.tunnels_only;
  sessions.loss_text = options.loss_text;
  sessions.resident = options.resident;
  sessions.sealed_secret = options.sealed_secret;
  sessions.inherited = options.inherited;
  return sessions;
}

StoreAccess access_of(const Server::Options& options) {
  if (options.confirm_clients) return StoreAccess::nodes_only;
  return options.round.max_nodes == 1 ? StoreAccess::own_user : StoreAccess::everyone;
}

}  // namespace

Server::Server(asio::any_io_executor executor, Options options)
    : executor_(std::move(executor)),
      has_secret_(options.security != nullptr),
      tunnels_only_(options.tunnels_only),
      sessions_(sessions_options(options)),
      store_(executor_),
      record_(options.record),
      timer_(executor_, [this] { perform(sessions_.tick(BootClock::now())); }),
      log_(executor_),
      store_log_(executor_),
      admissions_(
          executor_, access_of(options), eviction_timeout(options.lease),
          {.admit =
               [this](tcp::socket socket, std::string_view received, store::ConnectionSlot slot) {
                 store_.adopt(std::move(socket), received, std::move(slot));
               },
           .ask = [this](ConnectionId line,
                         const auto& connections) { ask_owners(line, connections); }}),
      tunnels_(executor_, store_),
      listener_(executor_, std::move(options.security), listener_hooks()) {}

Listener::Hooks Server::listener_hooks() {
  return {.turns_away = [this](tcp::socket& socket) { return admissions_.turns_away(socket); },
          .agent =
              [this](tcp::socket socket, std::string_view received, int version,
                     store::ConnectionSlot slot, std::unique_ptr<SecureChannel> secure) {
                std::string address = peer_of(socket);
                add_connection(std::move(socket), std::move(address), received, version,
                               std::move(slot), std::move(secure));
              },
          .other =
              [this](tcp::socket socket, std::string_view received, store::ConnectionSlot slot) {
                take_client(std::move(socket), received, std::move(slot));
              },
          .tunnel =
              [this](tcp::socket socket, std::string_view received, store::ConnectionSlot slot,
                     std::unique_ptr<SecureChannel> secure) {
                tunnels_.adopt(std::move(socket), received, std::move(slot), std::move(secure));
              },
          .refused =
              [this](const asio::ip::address& from, const std::string& sentence) {
                log_.warning("refused a node at " + plain_text(from) + ": " + sentence);
              }};
}

void Server::take_client(tcp::socket socket, std::string_view received,
                         store::ConnectionSlot slot) {
  if (!tunnels_only_) return admissions_.arrived(std::move(socket), received, std::move(slot));
  store_log_.warning("store: refused " + peer_of(socket) +
                     ": workers of this job come through their node's agent (--store tunnel)");
}

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

void Server::report_if_settled() {
  if (!settled_ || !sessions_.settled()) return;
  asio::post(executor_, std::exchange(settled_, nullptr));
}

std::unique_ptr<AgentsEnd> Server::connect(AgentsEnd::Hooks hooks) {
  const ConnectionId id = ++last_connection_;
  auto agent = std::make_unique<AgentsEnd>(executor_, std::move(hooks));
  auto own = std::make_unique<ServersEnd>(
      executor_,
      ServersEnd::Hooks{.received =
                            [this, id](const Result<Message>& message) {
                              perform(sessions_.received(id, message, BootClock::now()));
                            },
                        .lost = [this, id] { perform(sessions_.lost(id, BootClock::now())); }});
  own->connect(*agent);
  connections_[id].own = std::move(own);
  perform(sessions_.connected(id, "this process", kProtocolVersion, true));
  return agent;
}

void Server::add_connection(StreamSocket socket, std::string address, std::string_view received,
                            int version, store::ConnectionSlot slot,
                            std::unique_ptr<SecureChannel> secure) {
  const ConnectionId id = ++last_connection_;
  const bool open = has_secret_ && !secure;  // not encrypted, though it should be
  const auto lost = [this, id] { perform(sessions_.lost(id, BootClock::now())); };
  Connection& connection = connections_[id];
  connection.slot = std::move(slot);
  connection.slot.on_eviction(lost);
  connection.address = address.substr(0, address.find('%'));
  connection.channel = std::make_unique<ControlConnection>(
      std::move(socket), received,
      ControlConnection::Hooks{
          .received = [this, id](std::string_view body) { on_frame(id, body); },
          .lost = [lost](const Error&) { lost(); }},
      kMaxFirstFrame, std::move(secure));
  if (open) return perform(sessions_.connected_without_secret(id, std::move(address)));
  perform(sessions_.connected(id, std::move(address), version, false));
}

void Server::on_frame(ConnectionId id, std::string_view body) {
  Connection& connection = connections_.at(id);
  if (connection.is_agent) {
    return perform(sessions_.received(id, decode_message(body), BootClock::now()));
  }
  connection.channel->pause();
  connection.unheard = body;
  if (strangers_.empty()) hear_next_later();
  strangers_.push_back(id);
}

void Server::hear_next_later() {
  asio::post(executor_, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) hear_next();
  });
}

/// Reads strangers' frames, together no longer than about the longest one, so that agents are heard
/// between them.
void Server::hear_next() {
  const std::weak_ptr alive(alive_);
  for (size_t bytes = 0; bytes < kMaxFirstFrame;) {
    bytes += std::max(hear(strangers_.front()), kShortestCounted);
    if (alive.expired()) return;
    strangers_.pop_front();
    if (strangers_.empty()) return;
  }
  hear_next_later();
}

/// Returns the length of the frame.
size_t Server::hear(ConnectionId stranger) {
  const auto found = connections_.find(stranger);
  if (found == connections_.end()) return 0;
  const std::string body = std::exchange(found->second.unheard, {});
  found->second.channel->resume();
  perform(sessions_.received(stranger, decode_first_message(body), BootClock::now()));
  return body.size();
}

std::vector<std::string> Server::agent_addresses() const {
  std::vector<std::string> addresses;
  for (const auto& [id, connection] : connections_) {
    const bool is_elsewhere = connection.is_agent && !connection.address.empty();
    if (is_elsewhere) addresses.push_back(connection.address);
  }
  return addresses;
}

void Server::perform(const ServerActions& actions) {
  for (const ServerAction& action : actions) {
    std::visit([this](const auto& a) { perform(a); }, action);
  }
  report_round();
  report_if_settled();
  timer_.set(sessions_.deadline());
}

void Server::report_round() {
  const bool runs = sessions_.round().phase() == Round::Phase::active;
  if (std::exchange(runs_round_, runs) == runs || !round_changed_) return;
  asio::post(executor_, [this, runs] { round_changed_(runs); });
}

void Server::perform(const server_action::Send& send) {
  const auto found = connections_.find(send.to);
  if (found == connections_.end()) return;
  if (found->second.own) return found->second.own->send(*send.reply);
  if (encoded_reply_ != send.reply) {
    encoded_reply_ = send.reply;
    encoded_ = encode(*send.reply);
  }
  found->second.channel->send(encoded_);
}

void Server::perform(const server_action::Identified& identified) {
  Connection& connection = connections_.at(identified.connection);
  connection.is_agent = true;
  if (connection.own) return;
  connection.slot.is_member();
  connection.channel->allow_long_frames();
  if (!connection.address.empty()) {
    admissions_.line_opened(identified.connection, connection.address, identified.addresses);
  }
}

void Server::perform(const server_action::Close& close) {
  connections_.erase(close.connection);
  admissions_.line_closed(close.connection);
}

void Server::perform(const server_action::EmptyStore&) {
  admissions_.clear();
  tunnels_.clear();  // bytes on their way through them are of the round before
  store_.reset();
}

void Server::ask_owners(ConnectionId line, const std::vector<SocketEnds>& connections) {
  const auto found = connections_.find(line);
  if (found != connections_.end()) {
    found->second.channel->send(encode(Reply(reply::Whose{connections})));
  }
}

void Server::perform(const server_action::Warn& warn) {
  log_.warning(warn.sentence);
}

}  // namespace ddprun::rendezvous
