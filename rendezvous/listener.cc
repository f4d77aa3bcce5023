// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/listener.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include "base/log.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/protocol.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// PyTorch up to 2.0 keeps a second connection for each rank that stays silent, so silence is no
/// reason to close; the number of silent connections is bounded instead.
constexpr size_t kMaxPending = 16'384;

/// Out of descriptors, accept fails at once and again; it can only work when some were closed.
constexpr std::chrono::milliseconds kAcceptPause{100};

Error listen_error(const tcp::endpoint& address, const error_code& failure) {
  const std::string where = Endpoint{address.address().to_string(), address.port()}.text();
  Error error = os_error("cannot listen on " + where, failure.value());
  if (failure == asio::error::address_in_use) {
    error.code = Errc::usage;
    error.message +=
        " (by another job? choose another --master_port; by ddprun serve or another node of this "
        "one? give this node --rdzv_conf is_host=false)";
  } else if (failure == error_code(EADDRNOTAVAIL, boost::system::system_category())) {
    error.code = Errc::usage;
    error.message += " (--master_addr must be an address of this host)";
  }
  return error;
}

}  // namespace

Result<> Listener::listen(const std::vector<tcp::endpoint>& addresses) {
  Result<> first_failure;
  for (tcp::endpoint address : addresses) {
    if (!listen_sockets_.empty()) address.port(this->address().port());
    const Result<> added = listen_at(address);
    if (!added && first_failure) first_failure = added;
  }
  // A name may stand for addresses that are not this host's; one of its own is enough.
  return listen_sockets_.empty() ? first_failure : Result<>();
}

tcp::endpoint Listener::address() const {
  error_code ignored;  // a listening socket has an address
  return listen_sockets_.front().acceptor.local_endpoint(ignored);
}

Result<> Listener::listen_at(const tcp::endpoint& address) {
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
  listen_sockets_.push_back({std::move(acceptor), asio::steady_timer(executor_)});
  accept(listen_sockets_.back());
  return {};
}

void Listener::accept(ListenSocket& listening) {
  listening.acceptor.async_accept([this, &listening](error_code failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted) return;
    if (failure) return retry_accept(listening, failure.value());
    listening.stuck = false;
    if (pending_.size() < kMaxPending) {
      error_code ignored;  // keep-alive closes connections of lost hosts
      socket.set_option(asio::socket_base::keep_alive(true), ignored);
      socket.non_blocking(true, ignored);
      listen_to(pending_.insert(pending_.end(), PendingConnection{std::move(socket), {}}));
    }
    accept(listening);
  });
}

void Listener::retry_accept(ListenSocket& listening, int error_number) {
  if (!std::exchange(listening.stuck, true)) {
    log::warning(os_error("connections have to wait: cannot accept them", error_number).message);
  }
  listening.pause.expires_after(kAcceptPause);
  listening.pause.async_wait([this, &listening](error_code cancelled) {
    if (!cancelled) accept(listening);
  });
}

void Listener::listen_to(PendingConnections::iterator pending) {
  pending->socket.async_wait(tcp::socket::wait_read, [this, pending](error_code failure) {
    if (failure == asio::error::operation_aborted) return;
    std::array<char, 4096>
        buffer;  // not in PendingConnection: silent connections need little memory
    size_t size = 0;
    if (!failure) size = pending->socket.read_some(asio::buffer(buffer), failure);
    if (failure == asio::error::would_block) return listen_to(pending);
    if (failure) {
      pending_.erase(pending);
      return;
    }
    pending->received.append(buffer.data(), size);
    classify(pending);
  });
}

/// Decides by the bytes read so far what connected: an agent, or a client of the store.
void Listener::classify(PendingConnections::iterator pending) {
  const std::string& received = pending->received;
  const bool agent = received.starts_with(kGreetingName.substr(0, received.size()));
  if (agent && received.size() < kGreetingSize) return listen_to(pending);
  if (const std::optional<int> version = greeted_version(received)) {
    hooks_.agent(std::move(pending->socket), std::string_view(received).substr(kGreetingSize),
                 *version);
  } else {
    hooks_.other(std::move(pending->socket), received);
  }
  pending_.erase(pending);
}

}  // namespace ddprun::rendezvous
