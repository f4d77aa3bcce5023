// SPDX-License-Identifier: Apache-2.0
#include "store/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "base/signal_masked_thread.h"
#include "base/text.h"
#include "store/client_memory.h"

namespace ddprun::store {
namespace {

using boost::asio::ip::tcp;
/// How often in a row the store looks for requests, without going through the event loop in
/// between, before the rest of the process gets its turn.
constexpr int kTurns = 16;

/// How often it looks again after a request that came alone or got no reply, and how far apart. The
/// same client often has more requests, and waking the store costs more than serving it. Looking
/// without a pause would delay the senders, who need the lock of the epoll set.
constexpr int kLookAgain = 3;
constexpr std::chrono::microseconds kPause{8};

constexpr std::size_t kReadSize = 64 << 10;
constexpr std::size_t kPiecesAtOnce = 16;
constexpr int kStepsAtOnce = 64;  // of one client, between two looks at the clock
constexpr int kReaderChecks = 4;  // without a byte read, until a client is disconnected

// Freeing more than this would take longer than a turn.
constexpr std::size_t kManyClients = 500;
constexpr std::size_t kManyBytes = 4 << 20;

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

/// A worker whose host lost power sends nothing: probes find out. Tens of thousands of clients
/// connect within seconds. If they were all probed at once, the network would drop answers, and
/// healthy clients would be disconnected.
void prepare(int fd, ClientId id) {
  constexpr int kIdle = 60;  // seconds
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdle + static_cast<int>(id % kIdle));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

std::string peer_name(int fd) {
  tcp::endpoint peer;
  auto size = static_cast<socklen_t>(peer.capacity());
  if (getpeername(fd, peer.data(), &size) != 0) return "a client";
  if (peer.data()->sa_family == AF_UNIX) return "a worker behind its node's agent";
  peer.resize(size);
  return peer.address().to_string() + " port " + std::to_string(peer.port());
}

void pause() {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + kPause; Clock::now() < end;) {
  }
}

/// The events that are ready now, or at one of `more` looks a pause apart. Does not sleep.
int poll_events(int epoll, std::span<epoll_event> events, int more) {
  for (;; --more) {
    const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 0);
    if (count != 0 || more == 0) return count;
    pause();
  }
}

/// The store and the clients of a round that has ended.
struct Leftovers {
  Store store;
  std::vector<Fd> sockets;
};

/// Uses a thread: freeing millions of keys takes seconds, and the agents' heartbeats would wait.
void destroy(Leftovers&& old) {
  if (old.store.bytes() < kManyBytes && old.sockets.size() < kManyClients) return;
  try {
    signal_masked_thread([old = std::make_unique<Leftovers>(std::move(old))] {}).detach();
  } catch (const std::system_error&) {  // no thread can be started: destroys them here
  }
}

bool would_block(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

Server::Server(boost::asio::any_io_executor executor, Limits limits)
    : limits_(limits),
      store_(limits.store_bytes),
      look_at_(limits.client_bytes),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadSize)),
      epoll_(executor),
      reader_check_(executor),
      log_(executor) {
  Fd set(epoll_create1(EPOLL_CLOEXEC));
  if (!set) throw boost::system::system_error(errno, boost::system::system_category(), "epoll");
  epoll_.assign(set.get());
  set.release();
  wait_for_clients();
}

void Server::adopt(tcp::socket socket, std::string_view received, ConnectionSlot slot) {
  boost::system::error_code error;
  Fd fd(socket.release(error));
  if (!error) adopt(std::move(fd), received, std::move(slot));
}

void Server::adopt(Fd socket, std::string_view received, ConnectionSlot slot) {
  if (received.empty() && silent_ >= limits_.silent_clients) return;
  const ClientId id = next_id_++;
  prepare(socket.get(), id);
  Client& client = clients_.try_emplace(id, store_, id, limits_, std::move(socket)).first->second;
  ++silent_;
  client.slot = std::move(slot);
  client.slot.on_eviction([this, id] { drop(*find(id), ""); });
  client.events = EPOLLIN;
  epoll_event event{};
  event.events = client.events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, client.socket.get(), &event) != 0) {
    return drop(client, os_error("epoll", errno).message);
  }
  if (!received.empty()) on_bytes(client, received);
}

void Server::notify_failure(std::string_view sentence) {
  store_.notify_failure(sentence);
  take_events(nullptr);
  send_events();
}

void Server::reset() {
  Leftovers old{std::exchange(store_, Store(limits_.store_bytes)), {}};
  old.sockets.reserve(clients_.size());
  for (auto& [id, client] : clients_) old.sockets.push_back(std::move(client.socket));
  clients_.clear();
  silent_ = memory_ = 0;
  ready_count_ = next_ = 0;
  destroy(std::move(old));
}

Server::Client* Server::find(ClientId id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

void Server::wait_for_clients() {
  epoll_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [this, alive = std::weak_ptr<int>(alive_)](boost::system::error_code error) {
                      if (!error && !alive.expired()) serve_turn();
                    });
}

void Server::serve_turn() {
  turn_end_ = Clock::now() + limits_.turn;
  if (serve_ready()) return wait_for_clients();
  boost::asio::post(epoll_.get_executor(), [this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) serve_turn();
  });
}

// False: the turn is over, and more clients are ready.
bool Server::serve_ready() {
  int more = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (next_ == ready_count_ && !look_for_requests(more)) return true;
    replied_ = false;
    while (next_ < ready_count_) {
      const epoll_event& event = ready_[next_++];
      // An earlier event of this batch may have disconnected this client.
      if (Client* client = find(event.data.u64)) serve(*client, event.events);
      if (turn_is_over()) return false;
    }
    more = ready_count_ == 1 || !replied_ ? kLookAgain : 0;
    if (!replied_) pause();  // no replies: let requests gather
  }
  return true;
}

bool Server::look_for_requests(int more) {
  const int count = poll_events(epoll_.native_handle(), ready_, more);
  next_ = 0;
  ready_count_ = count > 0 ? static_cast<std::size_t>(count) : 0;
  return ready_count_ > 0;
}

void Server::serve(Client& client, std::uint32_t events) {
  if (events & EPOLLOUT) {
    if (!send(client)) return drop(client, "");
    if (client.busy) return advance(client);
  }
  if (events & EPOLLIN) return read(client);
  if (events & (EPOLLERR | EPOLLHUP)) return drop(client, "");
  update_epoll(client);
}

void Server::read(Client& client) {
  const ssize_t size = recv(client.socket.get(), buffer_.get(), kReadSize, MSG_DONTWAIT);
  if (size < 0 && would_block(errno)) return;
  if (size <= 0) return drop(client, "");
  on_bytes(client, {buffer_.get(), static_cast<std::size_t>(size)});
}

void Server::on_bytes(Client& client, std::string_view bytes) {
  if (std::exchange(client.silent, false)) --silent_;
  client.session.feed(bytes);
  advance(client);
}

// Runs the requests that have come, and sends the replies to `client`, then the events to other
// clients.
void Server::advance(Client& client) {
  using Step = Session::Step;
  Step step = Step::ran;
  bool open = true;
  do {
    step = run_requests(client);
    open = send(client);
  } while (open && step == Step::busy && client.session.outbox().empty() && !turn_is_over());
  client.busy = step == Step::busy;
  if (client.session.known()) client.slot.is_client();

  send_events();
  if (!open || client.send_overflowed) return drop(client, "");
  if (step == Step::broken) return drop(client, client.session.error().message);
  if (!update_epoll(client)) return drop(client, os_error("epoll", errno).message);
  count_memory(client);
  if (memory_ > look_at_) bound_memory();
}

Session::Step Server::run_requests(Client& client) {
  for (int steps = 1;; ++steps) {
    const Session::Step step = client.session.step(memory_ > limits_.client_bytes / 4);
    if (store_.has_events()) take_events(&client);
    if (step != Session::Step::ran) return step;
    if (steps % kStepsAtOnce != 0 || !turn_is_over()) continue;
    client.session.pause();
    return Session::Step::busy;
  }
}

void Server::take_events(const Client* from) {
  for (const ClientId id : store_.take_woken()) {
    Client* client = find(id);
    client->session.wake();
    if (client != from) notified_.push_back(id);
  }
  for (const WatchEvent& event : store_.take_changes()) {
    Client* client = find(event.client);
    if (!client->session.send_change(event)) client->send_overflowed = true;
    if (client != from) notified_.push_back(event.client);
  }
}

void Server::send_events() {
  for (const ClientId id : std::exchange(notified_, {})) {
    Client* client = find(id);  // may be listed twice, and gone the second time
    if (client == nullptr) continue;
    if (client->send_overflowed || !send(*client) || !update_epoll(*client)) {
      drop(*client, "");
    } else {
      count_memory(*client);
    }
  }
}

// False: the connection is broken. Bytes that the kernel does not take stay in the outbox.
bool Server::send(Client& client) {
  Outbox& outbox = client.session.outbox();
  replied_ = replied_ || !outbox.empty();
  while (!outbox.empty()) {
    std::array<std::string_view, kPiecesAtOnce> pieces;
    std::array<iovec, kPiecesAtOnce> parts;
    const std::size_t count = outbox.pieces(pieces.data(), pieces.size());
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
      size += pieces[i].size();
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(client.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return would_block(errno);
    client.has_read = true;
    outbox.drop(static_cast<std::size_t>(sent));
    if (static_cast<std::size_t>(sent) < size) return true;
  }
  return true;
}

// Sets the epoll events for which `client` waits now.
bool Server::update_epoll(Client& client) {
  std::uint32_t events = client.busy ? 0U : EPOLLIN;
  // If sending news has emptied the outbox of a busy client, its next request can run at once.
  if (client.busy || !client.session.outbox().empty()) {
    events |= EPOLLOUT;
    check_readers_later();
  }
  if (events == client.events) return true;
  client.events = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = client.id;
  return epoll_ctl(epoll_.native_handle(), EPOLL_CTL_MOD, client.socket.get(), &event) == 0;
}

void Server::count_memory(Client& client) {
  const std::size_t now = client.session.memory();
  memory_ = memory_ - client.memory + now;
  client.memory = now;
  look_at_ = std::max(limits_.client_bytes, std::min(look_at_, memory_ + limits_.client_bytes / 4));
}

// Many clients may hold the same value, which memory_ counts for each. If so, no client is dropped,
// and the next look is due when there is a good deal more.
void Server::bound_memory() {
  std::vector<ClientSession> sessions;
  for (const auto& [id, client] : clients_) sessions.push_back({id, &client.session});
  for (const ClientId id : clients_beyond(sessions, limits_.client_bytes)) {
    drop(*find(id), "all clients together hold too many unread replies and unfinished requests");
  }
  look_at_ = std::max(limits_.client_bytes, memory_ + limits_.client_bytes / 4);
}

void Server::check_readers_later() {
  if (std::exchange(checks_readers_, true)) return;
  reader_check_.expires_after(limits_.unread_time / kReaderChecks);
  reader_check_.async_wait(
      [this, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
        if (!cancelled && !alive.expired()) check_readers();
      });
}

void Server::check_readers() {
  checks_readers_ = false;
  std::vector<Client*> stuck;
  for (auto& [id, client] : clients_) {
    const bool reads = client.session.outbox().empty() || std::exchange(client.has_read, false);
    client.checks_unread = reads ? 0 : client.checks_unread + 1;
    if (!client.session.outbox().empty()) check_readers_later();
    if (client.checks_unread == kReaderChecks) stuck.push_back(&client);
  }
  for (Client* client : stuck) {
    drop(*client, "it has not read its replies for " + duration_text(limits_.unread_time));
  }
}

void Server::drop(Client& client, std::string_view reason) {
  if (!reason.empty()) {
    const auto line =
        "store: disconnected " + peer_name(client.socket.get()) + ": " + std::string(reason);
    client.session.known() ? log_.warning(line) : log::debug(line);
  }
  if (client.silent) --silent_;
  memory_ -= client.memory;
  clients_.erase(client.id);
}

}  // namespace ddprun::store
