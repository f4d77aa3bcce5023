// SPDX-License-Identifier: Apache-2.0
#include "base/blocking_io.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

namespace ddprun {
namespace {

bool is_transient(int error) {
  return error == EAGAIN || error == EINTR;
}

int connect_to_one(const addrinfo& address, Deadline deadline, Fd& socket) {
  socket.reset(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return connect_to(address.ai_addr, address.ai_addrlen, socket, deadline);
}

}  // namespace

int poll_time(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

int wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    const int time = poll_time(deadline);
    if (time == 0) return ETIMEDOUT;
    pollfd one = {fd, events, 0};
    const int ready = ::poll(&one, 1, time);
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

int send_all(const Fd& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t size =
        ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<size_t>(size));
    } else if (!is_transient(errno)) {
      return errno;
    } else if (const int error = wait_for(socket.get(), POLLOUT, deadline)) {
      return error;
    }
  }
  return 0;
}

int receive_some(const Fd& socket, std::span<char> bytes, Deadline deadline, size_t& size) {
  for (;;) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    size = static_cast<size_t>(std::max<ssize_t>(got, 0));
    if (got >= 0) return 0;
    if (!is_transient(errno)) return errno;
    if (const int error = wait_for(socket.get(), POLLIN, deadline)) return error;
  }
}

int receive_all(const Fd& socket, std::span<char> bytes, Deadline deadline) {
  for (size_t size = 0; !bytes.empty(); bytes = bytes.subspan(size)) {
    if (const int error = receive_some(socket, bytes, deadline, size)) return error;
    if (size == 0) return ENODATA;
  }
  return 0;
}

Result<AddressList> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return Error{Errc::usage, ::gai_strerror(error)};
  return AddressList(found, &::freeaddrinfo);
}

int connect_to(const sockaddr* address, socklen_t size, const Fd& socket, Deadline deadline) {
  if (::connect(socket.get(), address, size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (const int error = wait_for(socket.get(), POLLOUT, deadline)) return error;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

int connect_to(const addrinfo& addresses, Deadline deadline, Fd& socket) {
  int error = 0;
  for (const addrinfo* one = &addresses; one != nullptr; one = one->ai_next) {
    error = connect_to_one(*one, deadline, socket);
    if (error == 0) break;
  }
  return error;
}

}  // namespace ddprun
