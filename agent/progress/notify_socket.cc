// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/notify_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/ask/socket_folder.h"
#include "agent/ask/unix_socket.h"

namespace ddprun::agent {
namespace {

constexpr size_t kMostOfMessage = 4096;  // longer ones are ignored
constexpr size_t kMessagesInTurn = 32;   // other events are handled in between

/// The sender's pid, as the kernel reports it; 0: it is in another pid namespace.
pid_t sender_of(msghdr& header) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials;
    std::memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
    return credentials.pid;
  }
  return 0;
}

struct Message {
  pid_t sender = 0;  ///< 0: to be ignored
  std::string text;
};

/// Returns nullopt if no message is left. There is no room for a descriptor that comes with a
/// message, so the kernel closes it: this shows systemd-notify that its message was read.
std::optional<Message> read_one(const Fd& socket) {
  std::array<char, kMostOfMessage> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control;
  iovec part = {bytes.data(), bytes.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return errno == EINTR ? std::optional<Message>(Message{}) : std::nullopt;
  if ((header.msg_flags & MSG_TRUNC) != 0) return Message{};
  return Message{sender_of(header), std::string(bytes.data(), static_cast<size_t>(size))};
}

}  // namespace

NotifySocket::~NotifySocket() {
  if (!socket_) return;
  unlink(address_.c_str());
  readable_.release();
  reads_.discard(std::move(socket_));
}

Result<> NotifySocket::open() {
  const Result<std::string> path = ask::heartbeat_path(ask::lasting_folders());
  if (!path) return path.error();
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return os_error("cannot make a socket for heartbeats", errno);
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  if (!bind_to(socket, *path)) return os_error("cannot bind the socket for heartbeats", errno);
  address_ = *path;
  readable_.assign(socket.get());
  socket_ = std::make_shared<const Fd>(std::move(socket));
  wait();
  return {};
}

void NotifySocket::wait() {
  readable_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                       [this](boost::system::error_code cancelled) {
                         if (!cancelled) read();
                       });
}

/// Reads on a thread: closing a descriptor that came with a message may block for as long as its
/// owner chose (SO_LINGER).
void NotifySocket::read() {
  reads_.run(
      [socket = socket_] {
        std::vector<Message> messages;
        while (messages.size() < kMessagesInTurn) {
          std::optional<Message> message = read_one(*socket);
          if (!message) break;
          messages.push_back(std::move(*message));
        }
        return messages;
      },
      [this](const std::vector<Message>& messages) {
        for (const Message& each : messages) {
          if (each.sender != 0) received_(each.sender, each.text);
        }
        wait();
      });
}

}  // namespace ddprun::agent
