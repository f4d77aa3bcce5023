// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include "base/log.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// PyTorch up to 2.0 keeps a second connection for each rank that never says a word, so silence is
/// no reason to close; the number of the silent is bounded instead.
constexpr size_t kMaxNewcomers = 16'384;

/// Out of descriptors, accept fails at once and again; it can only work when some were closed.
constexpr std::chrono::milliseconds kAcceptPause{100};

Error listen_error(const tcp::endpoint& address, const error_code& failure) {
  const std::string where = Endpoint{address.address().to_string(), address.port()}.text();
  Error error = os_error("cannot listen on " + where, failure.value());
  if (failure == asio::error::address_in_use) {
    error.code = Errc::usage;
    error.message += " (another job? choose another --master_port, or leave it out)";
  } else if (failure == error_code(EADDRNOTAVAIL, boost::system::system_category())) {
    error.code = Errc::usage;
    error.message += " (--master_addr must be an address of this host)";
  }
  return error;
}

}  // namespace

Server::Server(asio::any_io_executor executor, Options options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      round_(options_.round),
      store_(executor_),
      deadline_(executor_),
      accept_pause_(executor_) {}

Result<std::unique_ptr<Server>> Server::listen(asio::any_io_executor executor,
                                               const Endpoint& endpoint, Options options) {
  const Result<std::vector<tcp::endpoint>> addresses = resolve(endpoint);
  if (!addresses) return addresses.error();
  std::unique_ptr<Server> server(new Server(std::move(executor), std::move(options)));
  Result<> first_failure;
  for (tcp::endpoint address : *addresses) {
    if (!server->acceptors_.empty()) address.port(server->address().port());
    const Result<> added = server->add_listener(address);
    if (!added && first_failure) first_failure = added;
  }
  // A name may stand for addresses that are not this host's; one that is will do.
  if (server->acceptors_.empty()) return first_failure.error();
  return server;
}

tcp::endpoint Server::address() const {
  error_code ignored;  // a listening socket has an address
  return acceptors_.front().local_endpoint(ignored);
}

Result<> Server::add_listener(const tcp::endpoint& address) {
  tcp::acceptor acceptor(executor_);
  error_code failure;
  acceptor.open(address.protocol(), failure);
  if (!failure) acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure && address.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(!address.address().is_unspecified()), failure);
  }
  if (!failure) acceptor.bind(address, failure);
  if (!failure) acceptor.listen(asio::socket_base::max_listen_connections, failure);
  if (failure) return listen_error(address, failure);
  acceptors_.push_back(std::move(acceptor));
  accept(acceptors_.back());
  return {};
}

void Server::accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](error_code failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted) return;
    if (failure) return retry_accept(acceptor);
    if (newcomers_.size() < kMaxNewcomers) {
      error_code ignored;  // those of lost hosts shall not stay for ever
      socket.set_option(asio::socket_base::keep_alive(true), ignored);
      socket.non_blocking(true, ignored);
      listen_to(newcomers_.insert(newcomers_.end(), Newcomer{std::move(socket), {}}));
    }
    accept(acceptor);
  });
}

void Server::retry_accept(tcp::acceptor& acceptor) {
  accept_pause_.expires_after(kAcceptPause);
  accept_pause_.async_wait([this, &acceptor](error_code cancelled) {
    if (!cancelled) accept(acceptor);
  });
}

void Server::listen_to(Newcomers::iterator newcomer) {
  newcomer->socket.async_wait(tcp::socket::wait_read, [this, newcomer](error_code failure) {
    if (failure == asio::error::operation_aborted) return;
    std::array<char, 4096> buffer;  // not in Newcomer: the silent ones shall cost next to nothing
    size_t size = 0;
    if (!failure) size = newcomer->socket.read_some(asio::buffer(buffer), failure);
    if (failure == asio::error::would_block) return listen_to(newcomer);
    if (failure) {
      newcomers_.erase(newcomer);
      return;
    }
    newcomer->received.append(buffer.data(), size);
    place(newcomer);
  });
}

/// Decides by the bytes read so far who the newcomer is: an agent, or a client of the store.
void Server::place(Newcomers::iterator newcomer) {
  const std::string& received = newcomer->received;
  const bool agent = received.starts_with(kGreetingName.substr(0, received.size()));
  if (agent && received.size() < kGreetingSize) return listen_to(newcomer);
  if (const std::optional<int> version = greeted_version(received)) {
    admit_agent(std::move(newcomer->socket), std::string_view(received).substr(kGreetingSize),
                *version);
  } else {
    store_.adopt(std::move(newcomer->socket), received);
  }
  newcomers_.erase(newcomer);
}

void Server::admit_agent(tcp::socket socket, std::string_view received, int version) {
  const NodeId node = ++last_node_;
  agents_.try_emplace(
      node, std::move(socket), received,
      ControlConnection::Hooks{[this, node](std::string_view body) { on_frame(node, body); },
                               [this, node](const Error& error) { on_lost(node, error); }});
  if (version == kProtocolVersion) return;
  deliver({{node, Refused{"it speaks protocol version " + std::to_string(kProtocolVersion) +
                          ", this ddprun version " + std::to_string(version) +
                          ": use the same ddprun on all nodes"}}});
}

void Server::on_frame(NodeId node, std::string_view body) {
  const Result<Message> message = decode_message(body);
  if (!message) return on_lost(node, message.error());
  deliver(answer(node, *message));
  wait_for_deadline();
}

Letters Server::answer(NodeId node, const Message& message) {
  const auto now = Round::Clock::now();
  if (const auto* join = std::get_if<message::Join>(&message)) {
    if (join->run_id == options_.run_id) return round_.join(node, join->request, now);
    return {{node, Refused{"it belongs to the job '" + options_.run_id + "', not to '" +
                           join->run_id + "' (--rdzv_id)"}}};
  }
  if (const auto* fail = std::get_if<message::Fail>(&message)) {
    return round_.fail(node, fail->round, fail->failure, now);
  }
  if (const auto* succeed = std::get_if<message::Succeed>(&message)) {
    return round_.succeed(node, succeed->round, now);
  }
  return round_.leave(node, now);
}

void Server::on_lost(NodeId node, const Error& error) {
  agents_.erase(node);
  deliver(round_.vanish(node, "its agent was killed (" + error.message + ")", Round::Clock::now()));
  wait_for_deadline();
}

void Server::deliver(const Letters& letters) {
  for (const auto& [node, letter] : letters) {
    const auto* ready = std::get_if<Ready>(&letter);
    if (ready != nullptr && ready->layout.round != store_round_) {
      // No member has a client left: nodes join when their workers are reaped.
      store_.reset();
      store_round_ = ready->layout.round;
    }
    const auto agent = agents_.find(node);
    if (agent != agents_.end()) agent->second.send(encode(letter));
  }
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
    deliver(round_.tick(Round::Clock::now()));
    wait_for_deadline();
  });
}

}  // namespace ddprun::rendezvous
