// SPDX-License-Identifier: Apache-2.0
#include "collectives/stores/store_host.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectives/kept_from_children.h"
#include "collectives/signal_masked_thread.h"
#include "ddp/error.h"
#include "store/owner_lookup.h"
#include "store/server.h"

namespace ddp::internal {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// The address to listen on; nullopt: all addresses.
std::optional<asio::ip::address> loopback(const std::string& address) {
  if (address == "localhost") return asio::ip::address_v4::loopback();
  error_code not_numeric;
  const auto numeric = asio::ip::make_address(address, not_numeric);
  if (!not_numeric && numeric.is_loopback()) return numeric;
  return std::nullopt;
}

/// Listens. For all addresses, one socket also takes IPv4, if the host has IPv6 at all.
error_code listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  if (acceptor.is_open()) acceptor.close(error);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address() == asio::ip::address_v6::any()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

}  // namespace

struct StoreHost::Impl {
  using Owner = ddprun::store::SocketOwner;

  Impl(const std::string& address, std::uint16_t port)
      : acceptor(context), server(context.get_executor()) {
    error_code error;
    if (const auto only = loopback(address)) {
      error = listen(acceptor, {*only, port});
    } else {
      error = listen(acceptor, {asio::ip::address_v6::any(), port});
      if (error) error = listen(acceptor, {asio::ip::address_v4::any(), port});
    }
    if (error) {
      throw Error(ErrorKind::system, "ddp: cannot serve the store on port " + std::to_string(port) +
                                         ": " + error.message());
    }
    start();
  }

  explicit Impl(Listening at) : acceptor(context), server(context.get_executor()) {
    acceptor.assign(tcp::v4(), at.socket.release());
    owners.emplace(context.get_executor());
    start();
  }

  ~Impl() {
    context.stop();
    thread.join();
  }

  void start() {
    keep_from_children(acceptor.native_handle());
    accept();
    thread = signal_masked_thread([this] { context.run(); });
  }

  void accept() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      if (error) return accept_later();
      keep_from_children(socket.native_handle());
      if (is_let_in(socket)) server.adopt(std::move(socket), {});
      accept();
    });
  }

  bool is_let_in(const tcp::socket& socket) {
    if (!owners) return true;
    return owners->at_once(ddprun::store::ends_of(socket)).value_or(Owner{}).may_be_ours();
  }

  /// Without free descriptors, accept would fail again at once.
  void accept_later() {
    pause.expires_after(std::chrono::milliseconds(100));
    pause.async_wait([this](const error_code&) { accept(); });
  }

  asio::io_context context{1};
  tcp::acceptor acceptor;
  asio::steady_timer pause{context};
  ddprun::store::Server server;
  std::optional<ddprun::store::OwnerLookup> owners;  // looks up whose a connection is
  std::thread thread;
};

StoreHost::StoreHost(const std::string& address, std::uint16_t port)
    : impl_(std::make_unique<Impl>(address, port)) {}
StoreHost::StoreHost(Listening at) : impl_(std::make_unique<Impl>(std::move(at))) {}
StoreHost::~StoreHost() = default;

Listening listen_on_loopback() {
  Listening at;
  at.socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!at.socket || ::bind(at.socket.get(), any, size) != 0 ||
      ::listen(at.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(at.socket.get(), any, &size) != 0) {
    throw Error(ErrorKind::system,
                std::string("ddp: cannot listen on 127.0.0.1: ") + std::strerror(errno));
  }
  at.port = ntohs(address.sin_port);
  return at;
}

std::uint16_t StoreHost::port() const {
  return impl_->acceptor.local_endpoint().port();
}

void host_store(const std::string& address, std::uint16_t port) {
  static std::mutex mutex;
  static std::map<std::uint16_t, StoreHost> hosts;
  const std::scoped_lock lock(mutex);
  if (!hosts.contains(port)) hosts.try_emplace(port, address, port);
}

}  // namespace ddp::internal
