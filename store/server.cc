// SPDX-License-Identifier: Apache-2.0
#include "store/server.h"

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
#include <tuple>
#include <utility>

#include "base/log.h"

namespace ddprun::store {
namespace {

using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

/// How often in a row the store looks for requests, without going through the event loop in
/// between, before the rest of the process gets its turn.
constexpr int kTurns = 16;

/// How often it looks again after a request that came alone or got no reply, and how far apart: the
/// same client often has more to ask or to set, and to wake the store costs more than to serve it.
/// Looking without a pause would hold up the senders, who need the lock of the epoll set.
constexpr int kLookAgain = 3;
constexpr std::chrono::microseconds kPause{8};

constexpr std::size_t kReadSize = 64 << 10;
constexpr int kReadyAtOnce = 64;  // then everything else in the process has its turn
constexpr std::size_t kPiecesAtOnce = 16;
constexpr std::size_t kLargeRequest = 64 << 10;  // smaller ones are never refused

bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// A worker whose host lost power says nothing: probes find out.
void prepare(int fd) {
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string peer_name(int fd) {
  tcp::endpoint peer;
  auto size = static_cast<socklen_t>(peer.capacity());
  if (getpeername(fd, peer.data(), &size) != 0) return "a client";
  peer.resize(size);
  return peer.address().to_string() + " port " + std::to_string(peer.port());
}

void pause() {
  for (const auto end = Clock::now() + kPause; Clock::now() < end;) {
  }
}

/// What is ready now, else at one of `more` looks a pause apart; does not sleep.
int poll_events(int epoll, std::span<epoll_event> events, int more) {
  for (;; --more) {
    const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 0);
    if (count != 0 || more == 0) return count;
    pause();
  }
}

bool would_block(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

Server::Server(boost::asio::any_io_executor executor, Limits limits)
    : limits_(limits),
      store_(limits.store_bytes),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadSize)),
      epoll_(executor) {
  Fd set(epoll_create1(EPOLL_CLOEXEC));
  if (!set) throw boost::system::system_error(errno, boost::system::system_category(), "epoll");
  epoll_.assign(set.get());
  set.release();
  wait_for_clients();
}

void Server::adopt(tcp::socket socket, std::string_view received) {
  boost::system::error_code error;
  Fd fd(socket.release(error));
  if (error || (received.empty() && silent_ >= limits_.silent_clients)) return;
  prepare(fd.get());

  const ClientId id = next_id_++;
  Client& client = clients_.try_emplace(id, store_, id, limits_, std::move(fd)).first->second;
  ++silent_;
  client.events = EPOLLIN;
  epoll_event event{};
  event.events = client.events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, client.socket.get(), &event) != 0) {
    return drop(client, os_error("epoll", errno).message);
  }
  if (!received.empty()) heard(client, received);
}

void Server::ring(std::string_view sentence) {
  store_.ring(sentence);
  bring_news(nullptr);
  send_news();
}

void Server::reset() {
  clients_.clear();
  store_ = Store(limits_.store_bytes);
  silent_ = unfinished_ = 0;
}

Server::Client* Server::find(ClientId id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

void Server::wait_for_clients() {
  epoll_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [this, alive = std::weak_ptr<int>(alive_)](boost::system::error_code error) {
                      if (error || alive.expired()) return;
                      serve_ready();
                      wait_for_clients();
                    });
}

void Server::serve_ready() {
  std::array<epoll_event, kReadyAtOnce> ready;
  int more = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const int count = poll_events(epoll_.native_handle(), ready, more);
    if (count <= 0) return;
    replied_ = false;
    for (int i = 0; i < count; ++i) {
      // One that came earlier in this batch may have led to the end of this one.
      if (Client* client = find(ready[i].data.u64)) serve(*client, ready[i].events);
    }
    more = count == 1 || !replied_ ? kLookAgain : 0;
    if (!replied_) pause();  // nobody was answered: what follows may gather
  }
}

void Server::serve(Client& client, std::uint32_t events) {
  if (events & EPOLLOUT) {
    if (!send(client)) return drop(client, "");
    if (client.busy) return advance(client);
  }
  if (events & EPOLLIN) return read(client);
  if (events & (EPOLLERR | EPOLLHUP)) return drop(client, "");
  look_for(client);
}

void Server::read(Client& client) {
  const ssize_t size = recv(client.socket.get(), buffer_.get(), kReadSize, MSG_DONTWAIT);
  if (size < 0 && would_block(errno)) return;
  if (size <= 0) return drop(client, "");
  heard(client, {buffer_.get(), static_cast<std::size_t>(size)});
}

void Server::heard(Client& client, std::string_view bytes) {
  if (std::exchange(client.silent, false)) --silent_;
  client.session.feed(bytes);
  advance(client);
}

// Runs what has come, sends what follows from it: first the replies to `client`, then the news to
// others.
void Server::advance(Client& client) {
  using Step = Session::Step;
  Step step = Step::ran;
  bool open = true;
  do {
    do {
      step = client.session.step();
      if (store_.has_news()) bring_news(&client);
    } while (step == Step::ran);
    open = send(client);
  } while (open && step == Step::busy && client.session.outbox().empty());
  client.busy = step == Step::busy;

  send_news();
  if (!open || client.deaf) return drop(client, "");
  if (step == Step::broken) return drop(client, client.session.error().message);
  if (!count_unfinished(client)) return drop(client, "too many large requests at once");
  if (!look_for(client)) drop(client, os_error("epoll", errno).message);
}

void Server::bring_news(const Client* from) {
  for (const ClientId id : store_.take_woken()) {
    Client* client = find(id);
    client->session.wake();
    if (client != from) told_.push_back(id);
  }
  for (const WatchEvent& event : store_.take_changes()) {
    Client* client = find(event.client);
    if (!client->session.tell(event)) client->deaf = true;
    if (client != from) told_.push_back(event.client);
  }
}

void Server::send_news() {
  for (const ClientId id : std::exchange(told_, {})) {
    Client* client = find(id);  // may be listed twice, and gone the second time
    if (client == nullptr) continue;
    if (client->deaf || !send(*client) || !look_for(*client)) drop(*client, "");
  }
}

// False: the connection is broken. What the kernel does not take stays in the outbox.
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
    outbox.drop(static_cast<std::size_t>(sent));
    if (static_cast<std::size_t>(sent) < size) return true;
  }
  return true;
}

// Tells the epoll set what `client` waits for now.
bool Server::look_for(Client& client) {
  std::uint32_t events = client.busy ? 0U : EPOLLIN;
  // Busy with an empty outbox, which news to it have flushed: its next request can run at once.
  if (client.busy || !client.session.outbox().empty()) events |= EPOLLOUT;
  if (events == client.events) return true;
  client.events = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = client.id;
  return epoll_ctl(epoll_.native_handle(), EPOLL_CTL_MOD, client.socket.get(), &event) == 0;
}

bool Server::count_unfinished(Client& client) {
  const std::size_t held = client.session.unfinished_bytes();
  const std::size_t counted = held > kLargeRequest ? held : 0;
  unfinished_ = unfinished_ - client.unfinished + counted;
  client.unfinished = counted;
  return counted == 0 || unfinished_ <= limits_.unfinished_bytes;
}

void Server::drop(Client& client, std::string_view reason) {
  if (!reason.empty()) {
    const auto line =
        "store: disconnected " + peer_name(client.socket.get()) + ": " + std::string(reason);
    client.session.known() ? log::warning(line) : log::debug(line);
  }
  if (client.silent) --silent_;
  unfinished_ -= client.unfinished;
  clients_.erase(client.id);
}

}  // namespace ddprun::store
