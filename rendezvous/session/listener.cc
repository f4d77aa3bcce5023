// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/listener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <optional>
#include <sys/resource.h>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "rendezvous/access/tunnel_flow.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/net/stream_socket.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/wire/protocol.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};

constexpr int kAcceptsAtOnce = 64;

/// The time to begin handshakes before the rest of the process gets its turn.
constexpr std::chrono::milliseconds kHandshakeTurn{2};

/// The kernel has its own limit, net.core.somaxconn, which an administrator can raise.
constexpr int kBacklog = INT_MAX;

/// The interval at which the time of connections is counted.
constexpr std::chrono::seconds kTick{5};

store::ConnectionLimits connection_limits() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return store::ConnectionLimits::of(limit.rlim_cur);
}

/// The source of an address: of IPv6 the network, as one host may have all its addresses.
store::SourceNetwork source_of(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_v4().to_uint();
  if (address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_uint();
  }
  store::SourceNetwork network = 0;
  const auto bytes = address.to_v6().to_bytes();
  for (size_t i = 0; i < sizeof network; ++i) network = network << 8 | bytes[i];
  return network;
}

Error listen_error(const tcp::endpoint& address, const error_code& failure) {
  const std::string where = Endpoint{address.address().to_string(), address.port()}.text();
  Error error = os_error("cannot listen on " + where, failure.value());
  if (failure == asio::error::address_in_use) {
    error.code = Errc::port_in_use;
    error.message +=
        " (by another job? choose another port; by ddprun serve or another node of this "
        "job? give this node --rdzv_conf is_host=false)";
  } else if (failure == error_code(EADDRNOTAVAIL, boost::system::system_category())) {
    error.code = Errc::usage;
    error.message += " (--rdzv_endpoint or --master_addr has to be an address of this host)";
  }
  return error;
}

}  // namespace

Listener::Listener(asio::any_io_executor executor, std::shared_ptr<const Security> security,
                   Hooks hooks)
    : executor_(executor),
      security_(std::move(security)),
      hooks_(std::move(hooks)),
      slots_(std::make_shared<store::ConnectionSlots>(connection_limits())),
      tick_(executor) {
  if (security_) handshake_threads_.emplace(executor);
}

size_t Listener::most_connections() {
  return connection_limits().connections;
}

Result<> Listener::listen(const std::vector<tcp::endpoint>& addresses) {
  Result<> first_failure;
  for (tcp::endpoint address : addresses) {
    if (!listen_sockets_.empty()) address.port(this->address().port());
    const Result<> added = listen_at(address);
    if (!added && first_failure) first_failure = added;
  }
  // A name may stand for other hosts' addresses, too; one of this host's is enough.
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
  if (!failure) acceptor.listen(kBacklog, failure);
  if (!failure) acceptor.non_blocking(true, failure);
  if (failure) return listen_error(address, failure);
  listen_sockets_.push_back({std::move(acceptor), asio::steady_timer(executor_)});
  accept(listen_sockets_.back());
  return {};
}

void Listener::accept(ListenSocket& listening) {
  if (!make_room()) return accept_later(listening, EMFILE);
  listening.acceptor.async_accept([this, &listening](error_code failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted) return;
    if (failure) return on_accept_failed(listening, failure.value());
    listening.stuck = false;
    take(std::move(socket));
    accept_more(listening);
    accept(listening);
  });
}

/// Accepts the connections that wait already: a node must not wait for a turn of the event loop for
/// each stranger before it.
void Listener::accept_more(ListenSocket& listening) {
  for (int more = 1; more < kAcceptsAtOnce && make_room(); ++more) {
    error_code failure;  // none waits; the next wait reports any other failure
    tcp::socket socket = listening.acceptor.accept(failure);
    if (failure) return;
    take(std::move(socket));
  }
}

void Listener::take(tcp::socket socket) {
  if (hooks_.turns_away(socket)) return;
  error_code ignored;  // keep-alive closes connections of lost hosts
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.non_blocking(true, ignored);
  const asio::ip::address from = socket.remote_endpoint(ignored).address();
  const store::SourceNetwork source = source_of(from);
  if (source == source_of(socket.local_endpoint(ignored).address()))
    slots_->add_own_network(source);
  store::ConnectionSlot slot(slots_, source);
  const std::uint64_t id = next_id_++;
  const auto pending =
      pending_
          .try_emplace(id, PendingConnection{std::move(socket), from, std::move(slot), {}, nullptr})
          .first;
  pending->second.slot.on_eviction([this, id] { pending_.erase(id); });
  read_from(id);
  wait_for_tick();
}

/// Closes connections until there is room for one more. False: all of them have to stay.
bool Listener::make_room() {
  while (const auto id = slots_->in_the_way()) slots_->evict(*id);
  return slots_->has_room();
}

/// Without free descriptors accept fails again and again; it only works when some were closed.
void Listener::on_accept_failed(ListenSocket& listening, int error_number) {
  const bool full = error_number == EMFILE || error_number == ENFILE;
  const auto least_wanted = full ? slots_->least_wanted() : std::nullopt;
  if (!least_wanted) return accept_later(listening, error_number);
  slots_->evict(*least_wanted);
  accept(listening);
}

void Listener::accept_later(ListenSocket& listening, int error_number) {
  if (!std::exchange(listening.stuck, true)) {
    log::warning(os_error("connections have to wait: cannot accept them", error_number).message);
  }
  listening.pause.expires_after(kAcceptPause);
  listening.pause.async_wait([this, &listening](error_code cancelled) {
    if (!cancelled) accept(listening);
  });
}

void Listener::wait_for_tick() {
  if (std::exchange(ticks_, true)) return;
  tick_.expires_after(kTick);
  tick_.async_wait([this](error_code cancelled) {
    if (cancelled) return;
    for (const store::ConnectionSlots::Id id : slots_->tick()) slots_->evict(id);
    ticks_ = false;
    if (slots_->is_timed()) wait_for_tick();
  });
}

void Listener::read_from(std::uint64_t id) {
  pending_.at(id).socket.async_wait(tcp::socket::wait_read, [this, id](error_code failure) {
    if (failure != asio::error::operation_aborted) on_readable(id);
  });
}

void Listener::on_readable(std::uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  PendingConnection& pending = found->second;
  std::array<char, 4096> buffer;  // not a member: silent connections need little memory
  error_code failure;
  const size_t size = pending.socket.read_some(asio::buffer(buffer), failure);
  if (failure == asio::error::would_block) return read_from(id);
  if (failure) {
    pending_.erase(found);
    return;
  }
  take_bytes(id, {buffer.data(), size});
}

void Listener::take_bytes(std::uint64_t id, std::string_view bytes) {
  PendingConnection& pending = pending_.at(id);
  if (pending.secure) return decrypt(id, bytes);
  pending.received.append(bytes);
  may_be_tls(pending.received) ? secure(id) : classify(id);
}

/// Decrypts once the first record is whole: a stranger costs no more than its bytes.
void Listener::secure(std::uint64_t id) {
  PendingConnection& pending = pending_.at(id);
  const std::optional<size_t> size = first_record_size(pending.received);
  if (size && *size > kMaxFirstRecord) return refuse(id, "", "");
  if (!size || pending.received.size() < *size) return read_from(id);
  if (security_) {
    if (handshakes_.is_empty()) begin_handshakes_later();
    return handshakes_.add(source_of(pending.from), id);
  }
  const bool is_agent = pending.received.find(kKeyName) != std::string::npos;
  refuse(
      id, alert_record(TlsAlert::no_secret),
      is_agent ? "it has a secret, and this master has none (--secret_file, DDPRUN_SECRET)" : "");
}

void Listener::begin_handshakes_later() {
  asio::post(executor_, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) begin_handshakes();
  });
}

/// Begins as many handshakes as the threads take, those of all addresses in turn.
void Listener::begin_handshakes() {
  const auto end = std::chrono::steady_clock::now() + kHandshakeTurn;
  while (handshake_threads_->has_room() && std::chrono::steady_clock::now() < end) {
    const auto id = handshakes_.next();
    if (!id) return;
    if (pending_.contains(*id)) begin_handshake(*id);
  }
  if (handshake_threads_->has_room() && !handshakes_.is_empty()) begin_handshakes_later();
}

/// An agent that got no answer in time has hung up, and tries again. A busy master that computed
/// answers for such lines would not reach the others.
void Listener::begin_handshake(std::uint64_t id) {
  PendingConnection& pending = pending_.at(id);
  if (has_hung_up(pending.socket)) return refuse(id, "", "");
  pending.slot.is_greeted();  // a handshake takes 40 KiB, and its first record can be repeated
  handshake_threads_->compute(security_, std::exchange(pending.received, {}),
                              [this, id](HandshakeThreads::Answer answer) {
                                on_handshake_begun(id, std::move(answer));
                                begin_handshakes();
                              });
}

void Listener::on_handshake_begun(std::uint64_t id, HandshakeThreads::Answer answer) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  found->second.secure = std::move(answer.channel);
  go_on_with(id, answer.received, answer.output);
}

void Listener::decrypt(std::uint64_t id, std::string_view bytes) {
  SecureChannel& secure = *pending_.at(id).secure;
  const Result<> decrypted = secure.receive(bytes);
  go_on_with(id, decrypted, secure.take_output());
}

void Listener::go_on_with(std::uint64_t id, const Result<>& decrypted, const std::string& output) {
  PendingConnection& pending = pending_.at(id);
  if (!decrypted) return refuse(id, output, decrypted.error().message);
  error_code failure;
  const size_t sent = pending.socket.write_some(asio::buffer(output), failure);
  if (failure || sent < output.size()) return refuse(id, "", "");  // its send buffer was empty
  pending.received += pending.secure->take_received();
  pending.received.empty() ? read_from(id) : classify(id);
}

/// Closes the connection after a last message. `sentence` is logged; empty: it is no agent.
void Listener::refuse(std::uint64_t id, const std::string& alert, const std::string& sentence) {
  const PendingConnections::node_type pending = pending_.extract(id);
  error_code ignored;
  if (!alert.empty()) pending.mapped().socket.write_some(asio::buffer(alert), ignored);
  if (!sentence.empty()) hooks_.refused(pending.mapped().from, sentence);
}

/// Decides by the bytes read so far what connected: an agent, or a client of the store.
void Listener::classify(std::uint64_t id) {
  const auto found = pending_.find(id);
  const std::string& received = found->second.received;
  const bool agent = received.starts_with(kGreetingName.substr(0, received.size()));
  const bool begins = agent || found->second.secure != nullptr;  // only agents encrypt
  if (begins && received.size() < kGreetingSize) return read_from(id);
  const PendingConnections::node_type pending = pending_.extract(found);
  auto& [socket, from, slot, bytes, secure] = pending.mapped();
  const std::optional<int> version = greeted_version(bytes);
  const std::string_view rest =
      std::string_view(bytes).substr(std::min(kGreetingSize, bytes.size()));
  if (!version && secure) {
    if (!bytes.starts_with(tunnel_greeting())) return;
    return hooks_.tunnel(std::move(socket), rest, std::move(slot), std::move(secure));
  }
  if (!version) return hooks_.other(std::move(socket), bytes, std::move(slot));
  if (!secure) slot.is_greeted();
  hooks_.agent(std::move(socket), rest, *version, std::move(slot), std::move(secure));
}

}  // namespace ddprun::rendezvous
