// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/begin_to_connect.h"

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>

#include "collectives/kept_from_children.h"

namespace ddp::internal {

ddprun::Fd begin_to_connect(const boost::asio::ip::tcp::endpoint& to) {
  ddprun::Fd socket(::socket(to.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw std::system_error(errno, std::generic_category(), "cannot make a socket");
  keep_from_children(socket.get());
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const int rc = ::connect(socket.get(), to.data(), static_cast<socklen_t>(to.size()));
  if (rc == 0 || errno == EINPROGRESS || errno == EINTR) return socket;
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

int error_of_socket(int socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace ddp::internal
