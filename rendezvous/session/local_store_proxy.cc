// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/local_store_proxy.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "rendezvous/access/tunnel_line.h"
#include "rendezvous/session/agent_session.h"
#include "rendezvous/session/server.h"

namespace ddprun::rendezvous {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kTunnelPause{500};  // between two attempts to reach the master

}  // namespace

LocalStoreProxy::LocalStoreProxy(asio::any_io_executor executor, Options options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      admissions_(
          executor_, StoreAccess::own_user, {},
          {.admit =
               [this](Socket socket, std::string_view received, store::ConnectionSlot slot) {
                 admit(std::move(socket), received, std::move(slot));
               },
           .ask = [](ConnectionId, const auto&) {}}),
      listener_(executor_, nullptr, listener_hooks()),
      dialer_(executor_, {}, options_.local, dialer_hooks()),
      pause_(executor_) {}

Listener::Hooks LocalStoreProxy::listener_hooks() {
  return {.turns_away = [this](Socket& socket) { return admissions_.turns_away(socket); },
          .agent = [](Socket, std::string_view, int, store::ConnectionSlot,
                      std::unique_ptr<SecureChannel>) {},
          .other =
              [this](Socket socket, std::string_view received, store::ConnectionSlot slot) {
                admissions_.arrived(std::move(socket), received, std::move(slot));
              },
          .tunnel = [](Socket, std::string_view, store::ConnectionSlot,
                       std::unique_ptr<SecureChannel>) {},
          .refused = [](const asio::ip::address&, const std::string&) {}};
}

Dialer::Hooks LocalStoreProxy::dialer_hooks() {
  return {.connected = [this](Socket socket) { on_dialed(std::move(socket)); },
          .failed =
              [this](const Error& error) {
                log::debug("store: no tunnel to " + master_.text() + ": " + error.message);
                dial_later();
              }};
}

Result<> LocalStoreProxy::open() {
  return listener_.listen({{asio::ip::address_v4::loopback(), 0}});
}

Endpoint LocalStoreProxy::address() const {
  const auto address = listener_.address();
  return {address.address().to_string(), address.port()};
}

void LocalStoreProxy::begin_round() {
  waiting_.clear();
  admissions_.clear();
  line_.reset();
  is_proven_ = false;
  dialer_.cancel();
  pause_.cancel();
  dials_ = false;
}

void LocalStoreProxy::admit(Socket socket, std::string_view received, store::ConnectionSlot slot) {
  if (Server* const server = options_.hosted()) {
    return server->adopt_client(std::move(socket), received, std::move(slot));
  }
  slot.is_client();
  if (is_proven_) return line_->carry(std::move(socket), received, std::move(slot));
  const std::uint64_t number = ++last_;
  slot.on_eviction([this, number] { waiting_.erase(number); });
  waiting_.try_emplace(number, Visitor{std::move(socket), std::string(received), std::move(slot)});
  if (!dials_ && !line_) dial();
}

void LocalStoreProxy::dial() {
  dials_ = true;
  master_ = options_.master();
  dialer_.set_endpoint(master_);
  dialer_.dial(AgentSession::kDialLimit);
}

void LocalStoreProxy::dial_later() {
  pause_.expires_after(kTunnelPause);
  pause_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    dials_ = false;
    if (!waiting_.empty() && !line_) dial();
  });
}

void LocalStoreProxy::on_dialed(Socket socket) {
  dials_ = false;
  probe_when_idle(socket);
  auto secure = std::make_unique<SecureChannel>(options_.security(), SecureChannel::Role::agent);
  line_ = std::make_unique<TunnelLine>(
      std::move(socket), "", std::move(secure),
      TunnelLine::Hooks{.opened = nullptr,
                        .lost = [this](const Error& error) { on_lost(error); },
                        .proven = [this] { on_proven(); }});
  line_->greet(tunnel_greeting());
}

void LocalStoreProxy::on_proven() {
  is_proven_ = true;
  for (auto& [number, visitor] : std::exchange(waiting_, {})) {
    line_->carry(std::move(visitor.socket), visitor.received, std::move(visitor.slot));
  }
}

void LocalStoreProxy::on_lost(const Error& error) {
  if (line_->count() > 0) {
    log::warning("store: the tunnel to " + master_.text() + " is lost (" + error.message +
                 "): " + std::to_string(line_->count()) + " connections of workers are closed");
  }
  line_.reset();
  if (std::exchange(is_proven_, false)) return;
  log::debug("store: no tunnel to " + master_.text() + ": " + error.message);
  dials_ = true;
  dial_later();
}

}  // namespace ddprun::rendezvous
