// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/client.h"

#include <iterator>
#include <utility>

#include "base/secret.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/session/server.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;

namespace {

AgentSession::Settings settings_of(const Client::Options& options, const std::string& session) {
  AgentSession::Settings settings;
  settings.master = options.locate ? options.master : options.server.text();
  settings.run_id = options.run_id;
  settings.min_nodes = options.min_nodes;
  settings.max_nodes = options.max_nodes;
  settings.host = options.host;
  settings.session = session;
  settings.hosting = options.hosted != nullptr;
  settings.searched = options.searched;
  settings.elected = options.locate && !options.searched;
  settings.join_timeout = options.join_timeout;
  if (options.security) settings.addresses = own_addresses(kMaxAddresses);
  return settings;
}

/// The error of a node that cannot join without the key.
Error no_key(Error error, const Endpoint& master) {
  if (error.code == Errc::usage) error.message = master.text() + " " + error.message;
  if (error.code != Errc::protocol) return error;
  return std::move(error).in("the server at " + master.text() + " is not a ddprun master");
}

}  // namespace

Client::Client(const asio::any_io_executor& executor, Options options, Report report)
    : options_(std::move(options)),
      report_(std::move(report)),
      session_name_(random_name()),
      session_(settings_of(options_, session_name_)),
      dialer_(
          executor, options_.server, options_.local,
          {.connected = [this](asio::ip::tcp::socket socket) { on_dialed(std::move(socket)); },
           .failed = [this](const Error& error) { perform(session_.dial_failed(error, now())); }}),
      key_request_(executor, options_.open_secret, options_.run_id),
      has_key_(!options_.open_secret),
      owners_(executor),
      timer_(executor, [this] { perform(session_.tick(now())); }) {}

/// Performs one action after the other, also those that an action causes.
void Client::perform(AgentActions actions) {
  queued_actions_.insert(queued_actions_.end(), std::make_move_iterator(actions.begin()),
                         std::make_move_iterator(actions.end()));
  if (performing_) return;
  performing_ = true;
  while (!queued_actions_.empty()) {
    const AgentAction next = std::move(queued_actions_.front());
    queued_actions_.pop_front();
    std::visit([this](const auto& action) { perform(action); }, next);
  }
  performing_ = false;
  timer_.set(session_.deadline());
}

void Client::perform(const agent_action::Dial&) {
  if (options_.locate) {
    locating_ = std::make_shared<char>();
    return options_.locate([this, locating = std::weak_ptr(locating_)](const auto& server) {
      if (!locating.expired()) on_located(server);
    });
  }
  if (options_.hosted == nullptr) return dialer_.dial(AgentSession::kDialLimit);
  connect_to_hosted();
}

void Client::perform(const agent_action::StopDialing&) {
  locating_.reset();
  dialer_.cancel();
  key_request_.cancel();
}

void Client::on_located(const Result<Endpoint>& server) {
  locating_.reset();
  if (!server) return perform(session_.dial_failed(server.error(), now()));
  session_.located(server->text());
  report_(node_event::Located{*server});
  // Each master makes another secret.
  if (options_.open_secret && server->text() != options_.server.text()) has_key_ = false;
  options_.server = *server;
  dialer_.set_endpoint(*server);
  dialer_.dial(AgentSession::kDialLimit);
}

void Client::perform(const agent_action::Send& send) {
  const auto found = connections_.find(send.to);
  if (found != connections_.end()) return found->second->send(encode(send.message));
  const auto own = own_lines_.find(send.to);
  if (own != own_lines_.end()) own->second->send(send.message);
}

void Client::perform(const agent_action::Close& close) {
  connections_.erase(close.connection);
  own_lines_.erase(close.connection);
}

/// If the kernel cannot say, trusts the master, which asks only about this node's address.
void Client::perform(const agent_action::TellOwners& question) {
  owners_.look_up(question.connections, [this, to = question.to](const auto& owners) {
    message::Owned owned;
    for (const store::SocketOwner& owner : owners) owned.ours.push_back(owner.may_be_ours());
    perform(agent_action::Send{to, std::move(owned)});
  });
}

/// If the master's key is not known yet, the connection only asks for it.
void Client::on_dialed(asio::ip::tcp::socket socket) {
  if (!has_key_) {
    return key_request_.ask(std::move(socket), [this](auto key) { on_key(std::move(key)); });
  }
  boost::system::error_code gone;
  const auto server = socket.remote_endpoint(gone);
  if (!gone) {
    connected_to_ = server;
    report_(node_event::Connected{});
  }
  add_connection(std::move(socket));
}

void Client::on_key(Result<KeyRequest::Key> key) {
  if (!key) return perform(session_.dial_failed(no_key(key.error(), options_.server), now()));
  options_.security = std::move(*key);
  has_key_ = true;
  dialer_.dial(AgentSession::kDialLimit);
}

/// A restarted master has made another secret.
void Client::on_lost(ConnectionId id, const Error& error) {
  if (error.code == Errc::usage && options_.open_secret) has_key_ = false;
  perform(session_.lost(id, error, now()));
}

void Client::add_connection(StreamSocket socket) {
  const ConnectionId id = ++last_connection_;
  auto connection = std::make_unique<ControlConnection>(
      std::move(socket), std::string_view(),
      ControlConnection::Hooks{
          .received = [this, id](std::string_view body) { on_reply(id, decode_reply(body)); },
          .lost = [this, id](const Error& error) { on_lost(id, error); },
          .drained = [this, id] { perform(session_.proven(id, now())); }},
      kMaxFrame,
      options_.security != nullptr
          ? std::make_unique<SecureChannel>(options_.security, SecureChannel::Role::agent)
          : nullptr);
  connection->send(greeting());
  connections_.emplace(id, std::move(connection));
  perform(session_.connected(id, now()));
}

void Client::connect_to_hosted() {
  const ConnectionId id = ++last_connection_;
  own_lines_[id] = options_.hosted->connect(
      {.received = [this, id](Result<Reply> reply) { on_reply(id, std::move(reply)); },
       .lost = [this, id] { on_lost(id, {Errc::closed, "connection closed"}); }});
  perform(session_.connected(id, now()));
}

void Client::on_reply(ConnectionId id, Result<Reply> reply) {
  perform(reply ? session_.received(id, std::move(*reply), now())
                : session_.lost(id, reply.error(), now()));
}

}  // namespace ddprun::rendezvous
