// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/mesh.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>
#include <utility>

#include "collectives/backends/cpu/begin_to_connect.h"

namespace ddp::internal {
namespace {

using ddprun::Fd;

constexpr const char* kEnded = "its connection ended";

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

bool is_for_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

bool is_closed_by_peer(int error) {
  return error == ECONNRESET || error == EPIPE;
}

iovec rest_of(std::span<const char> part, std::size_t done) {
  const auto rest = part.subspan(std::min(done, part.size()));
  return {const_cast<char*>(rest.data()), rest.size()};
}

/// Sends what the socket takes at once.
ssize_t send_now(const Fd& socket, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

CpuMesh::CpuMesh(const GroupContext& context, const CpuListeners& listeners,
                 std::chrono::milliseconds grace)
    : context_(context),
      listeners_(listeners),
      grace_(grace),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      links_(static_cast<std::size_t>(context.size)) {
  if (!wake_) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
}

void CpuMesh::accept(int from, Fd socket) {
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return;
  arrived_.emplace_back(from, std::move(socket));
  ::eventfd_write(wake_.get(), 1);
}

void CpuMesh::abort() noexcept {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  for (const Link& link : links_) {
    if (link.out) ::shutdown(link.out.get(), SHUT_RDWR);
    if (link.in) ::shutdown(link.in.get(), SHUT_RDWR);
  }
  arrived_.clear();
  ::eventfd_write(wake_.get(), 1);
}

void CpuMesh::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  for (Link& link : links_) link = {};
  arrived_.clear();
}

void CpuMesh::throw_if_stopped() const {
  if (is_stopped_) throw MeshStopped();
}

/// The first connection in the name of a rank counts. Takes away what wakes this thread, so this
/// thread must not wait after an abort().
void CpuMesh::take_arrived() {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  const std::lock_guard lock(mutex_);
  throw_if_stopped();
  for (auto& [from, socket] : arrived_) {
    if (!link(from).in) link(from).in = std::move(socket);
  }
  arrived_.clear();
}

/// Connects, unless done, and greets. Does only what is possible now without blocking.
void CpuMesh::reach(int rank) {
  do {
    throw_if_stopped();
    connect(rank);
    greet(rank);
  } while (!link(rank).out);
  const bool is_noted = std::ranges::count(ungreeted_, rank) > 0;
  if (link(rank).greets() && !is_noted) ungreeted_.push_back(rank);
}

void CpuMesh::connect(int rank) {
  if (link(rank).out) return;
  Fd socket = begin_to_connect(listeners_.at(rank).endpoint);
  if (!socket) throw PeerLost(rank, reason_of(errno));
  const std::lock_guard lock(mutex_);
  link(rank).greeted = 0;
  link(rank).out = std::move(socket);
}

/// Says whose the connection is, as soon as it is made.
void CpuMesh::greet(int rank) {
  Link& to = link(rank);
  if (!to.greets()) return;
  const Frame greeting{
      .kind = Frame::Kind::calls, .tag = context_.rank, .number = listeners_.at(rank).token};
  while (to.greets()) {
    std::array rest = {
        rest_of({reinterpret_cast<const char*>(&greeting), sizeof(greeting)}, to.greeted)};
    const ssize_t sent = send_now(to.out, rest);
    if (sent < 0 && is_for_later(errno)) return;
    if (sent < 0 && is_closed_by_peer(errno)) return drop(rank);
    if (sent < 0) throw PeerLost(rank, reason_of(errno));
    to.greeted = static_cast<std::uint8_t>(to.greeted + sent);
  }
}

/// Greets on connections that nothing more was needed of when they were made. The other rank must
/// know whose they are: it keeps only so many unidentified ones.
void CpuMesh::greet_late() {
  for (const int rank : std::exchange(ungreeted_, {})) {
    if (link(rank).greets() && !link(rank).ended) watch(rank);
  }
}

/// The other rank ended a connection before it knew whose it was: there were too many. If that rank
/// is gone, the next connection is refused.
void CpuMesh::drop(int rank) {
  const std::lock_guard lock(mutex_);
  link(rank).out = Fd();
}

/// Connects so that the rank's end shows. Data that it sent before may still come.
void CpuMesh::watch(int rank) {
  try {
    reach(rank);
  } catch (const PeerLost& lost) {
    link(rank).ended = std::make_unique<End>(End{std::chrono::steady_clock::now(), lost.reason});
  }
}

/// Sends what it can; returns whether all is sent.
bool CpuMesh::send_some(Sending& sending) {
  while (!sending.is_done()) {
    reach(sending.rank);
    if (link(sending.rank).greets()) return false;
    const std::size_t first = sending.parts[0].size();
    std::array rest = {rest_of(sending.parts[0], sending.done),
                       rest_of(sending.parts[1], sending.done - std::min(sending.done, first))};
    const ssize_t sent = send_now(link(sending.rank).out, rest);
    if (sent < 0 && is_for_later(errno)) return false;
    if (sent < 0) throw PeerLost(sending.rank, errno == EPIPE ? kEnded : reason_of(errno));
    sending.done += static_cast<std::size_t>(sent);
  }
  return true;
}

/// Receives what it can; returns whether all is received. If the other rank has not connected yet,
/// our connection to it shows whether it is still there.
bool CpuMesh::receive_some(Receiving& receiving) {
  while (!receiving.is_done()) {
    if (receiving.done == receiving.bytes) {
      receiving.bytes += std::exchange(receiving.more, {})();
      continue;
    }
    if (!link(receiving.rank).in) take_arrived();
    const Fd& from = link(receiving.rank).in;
    if (!from) {
      if (!link(receiving.rank).ended) watch(receiving.rank);
      return false;
    }
    const ssize_t got = ::recv(from.get(), receiving.data + receiving.done,
                               receiving.bytes - receiving.done, MSG_DONTWAIT);
    if (got < 0 && is_for_later(errno)) return false;
    if (got <= 0) throw PeerLost(receiving.rank, got == 0 ? kEnded : reason_of(errno));
    receiving.done += static_cast<std::size_t>(got);
  }
  return true;
}

/// If this rank's abort() ended a connection, that is no loss.
void CpuMesh::move(std::span<Sending> out, std::span<Receiving> in) {
  try {
    throw_if_stopped();
    while (!move_some(out, in)) wait(out, in);
    greet_late();
  } catch (const PeerLost&) {
    throw_if_stopped();
    throw;
  }
}

/// Moves what it can; returns whether all is sent and received.
bool CpuMesh::move_some(std::span<Sending> out, std::span<Receiving> in) {
  bool is_done = true;
  for (Sending& each : out) is_done = (each.is_ready && send_some(each)) && is_done;
  for (Receiving& each : in) is_done = (each.is_ready && receive_some(each)) && is_done;
  return is_done;
}

void CpuMesh::swap(const Sending& out, const Receiving& in) {
  std::array sending = {out};
  std::array receiving = {in};
  move(sending, receiving);
}

/// Returns milliseconds for poll(); `rank` is the one to blame.
int CpuMesh::wait_time(int rank) const {
  if (!deadline_) return -1;
  const auto left = *deadline_ - std::chrono::steady_clock::now();
  if (left <= std::chrono::nanoseconds(0)) throw PeerLate(rank);
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<decltype(whole)>(whole, INT_MAX));
}

/// Waits until one of them can continue.
void CpuMesh::wait(std::span<Sending> out, std::span<Receiving> in) {
  int awaited = -1;
  bool has_ended = false;
  polled_.assign(1, {wake_.get(), POLLIN, 0});
  const auto add = [&](int rank, const Fd& socket, short events) {
    if (awaited < 0) awaited = rank;
    polled_.push_back({events == 0 ? -1 : socket.get(), events, 0});
  };
  for (const Receiving& each : in) {
    if (each.is_done()) continue;
    const Link& from = link(each.rank);
    if (from.in) {
      add(each.rank, from.in, POLLIN);
    } else {
      has_ended |= from.ended != nullptr;
      add(each.rank, from.out, watched_events(each.rank));
    }
  }
  for (const Sending& each : out) {
    if (!each.is_done()) add(each.rank, link(each.rank).out, POLLOUT);
  }
  const int limit = has_ended ? static_cast<int>(grace_.count()) : wait_time(awaited);
  if (::poll(polled_.data(), polled_.size(), limit) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "cannot wait for connections");
  }
  throw_if_stopped();
  const bool have_arrived = polled_.front().revents != 0;
  if (have_arrived) take_arrived();
  std::size_t next = 1;
  for (Receiving& each : in) {
    if (each.is_done()) continue;
    const short events = polled_[next++].revents;
    each.is_ready = events != 0 || have_arrived;
    if (!link(each.rank).in) look_for_end(each.rank, events);
  }
  for (Sending& each : out) {
    if (!each.is_done()) each.is_ready = polled_[next++].revents != 0;
  }
}

/// The events of our connection to a rank that has not connected to this one; none after its end.
short CpuMesh::watched_events(int rank) {
  const Link& to = link(rank);
  if (to.ended) return 0;
  return static_cast<short>(to.greets() ? POLLIN | POLLOUT : POLLIN);
}

/// A living rank never sends on our connection to it.
void CpuMesh::look_for_end(int rank, short events) {
  Link& to = link(rank);
  const auto now = std::chrono::steady_clock::now();
  if (to.ended) {
    if (now - to.ended->since >= grace_) throw PeerLost(rank, to.ended->reason);
    return;
  }
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  const int error = error_of_socket(to.out.get());
  if (to.greets() && (error == 0 || is_closed_by_peer(error))) return drop(rank);
  to.ended = std::make_unique<End>(End{now, error == 0 ? kEnded : reason_of(error)});
}

}  // namespace ddp::internal
