// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/wire.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun::doctor {
namespace {

bool is_transient(int error) {
  return error == EAGAIN || error == EINTR;
}

int socket_error(const Fd& socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int connect_one(const addrinfo& address, Clock::time_point deadline, Fd& socket) {
  socket.reset(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (const int error = wait_for(socket, POLLOUT, deadline)) return error;
    if (const int error = socket_error(socket)) return error;
  }
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return 0;
}

}  // namespace

int wait_for(const Fd& socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return ETIMEDOUT;
    pollfd one{socket.get(), events, 0};
    const int ready = poll(&one, 1, static_cast<int>(left.count()));
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

int send_all(const Fd& socket, std::span<const char> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t size = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(size));
    } else if (!is_transient(errno)) {
      return errno;
    } else if (const int error = wait_for(socket, POLLOUT, deadline)) {
      return error;
    }
  }
  return 0;
}

int receive_all(const Fd& socket, std::span<char> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t size = recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (size == 0) return ECONNRESET;
    if (size > 0) {
      bytes = bytes.subspan(static_cast<size_t>(size));
    } else if (!is_transient(errno)) {
      return errno;
    } else if (const int error = wait_for(socket, POLLIN, deadline)) {
      return error;
    }
  }
  return 0;
}

int connect_to(const std::string& host, std::uint16_t port, Clock::time_point deadline, Fd& socket,
               std::string& reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failure != 0) {
    reason = gai_strerror(failure);
    return EHOSTUNREACH;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  int error = EHOSTUNREACH;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    error = connect_one(*entry, deadline, socket);
    if (error == 0) return 0;
  }
  return error;
}

}  // namespace ddprun::doctor
