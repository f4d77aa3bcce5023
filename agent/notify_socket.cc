// SPDX-License-Identifier: Apache-2.0
#include "agent/notify_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "rendezvous/random_name.h"

namespace ddprun::agent {
namespace {

constexpr size_t kMostOfMessage = 4096;  // longer ones are left out
constexpr int kMessagesInTurn = 32;      // other events wait meanwhile

/// A worker may have become another user, but only where we are root. Others only cost time.
bool may_be_ours(const ucred& sender) {
  return sender.uid == getuid() || getuid() == 0;
}

/// The process that the kernel names; 0: none, or another user's.
pid_t sender_of(msghdr& header) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials;
    std::memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
    return may_be_ours(credentials) ? credentials.pid : 0;
  }
  return 0;
}

/// '@' is a zero byte: the name of a socket that no folder has.
Result<> bind_abstract(int socket, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin() + 1, name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0) return {};
  return os_error("cannot bind the socket for heartbeats", errno);
}

}  // namespace

Result<> NotifySocket::open() {
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return os_error("cannot make a socket for heartbeats", errno);
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  const std::string name = "@ddprun/" + rendezvous::random_name();
  if (const Result<> bound = bind_abstract(socket.get(), name); !bound) return bound;
  socket_.assign(socket.release());
  address_ = name;
  wait();
  return {};
}

void NotifySocket::wait() {
  socket_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                     [this](boost::system::error_code cancelled) {
                       if (cancelled) return;
                       for (int i = 0; i < kMessagesInTurn && read_one();) ++i;
                       wait();
                     });
}

/// False: none is left. A descriptor that comes with a message is closed by the kernel, as there is
/// no room for it: so systemd-notify sees that its message was read.
bool NotifySocket::read_one() {
  std::array<char, kMostOfMessage> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control;
  iovec part = {bytes.data(), bytes.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket_.native_handle(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return errno == EINTR;
  const pid_t sender = sender_of(header);
  if (sender != 0 && (header.msg_flags & MSG_TRUNC) == 0) {
    received_(sender, std::string_view(bytes.data(), static_cast<size_t>(size)));
  }
  return true;
}

}  // namespace ddprun::agent
