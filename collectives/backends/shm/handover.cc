// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/handover.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

#include "collectives/fnv.h"

namespace ddp::internal {
namespace {

using ddprun::Fd;

/// Calls bind() or connect() with the abstract name, which begins with a zero byte.
template <class F>
bool at_name(F call, const Fd& socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return call(socket.get(), reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)) == 0;
}

bool is_same_user(const Fd& connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

Fd unix_socket() {
  return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// A message of one byte and room for one descriptor.
struct Parcel {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  Parcel() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
};

void send_descriptor(const Fd& connection, int descriptor) {
  Parcel parcel;
  cmsghdr* const head = CMSG_FIRSTHDR(&parcel.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
  ::sendmsg(connection.get(), &parcel.message, MSG_NOSIGNAL);  // a failure ends the connection
}

Fd receive_descriptor(const Fd& connection) {
  Parcel parcel;
  if (::recvmsg(connection.get(), &parcel.message, MSG_CMSG_CLOEXEC) != 1) return {};
  const cmsghdr* const head = CMSG_FIRSTHDR(&parcel.message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(head), sizeof(int));
  return Fd(descriptor);
}

/// The namespace's number is one of this kernel's, which has one of its own for as long as it runs.
std::string kernel_and_namespace() {
  std::string kernel;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> kernel;
  std::error_code error;
  const auto link = std::filesystem::read_symlink("/proc/thread-self/ns/net", error);
  return kernel.empty() || error ? "" : kernel + link.string();
}

}  // namespace

std::uint64_t network_namespace() {
  const std::string text = kernel_and_namespace();
  if (text.empty()) return 0;
  Fnv64 hash;
  hash.add(text);
  return hash.value();
}

ShmOffer::ShmOffer(const ShmMeeting& meeting, int takers) : token_(meeting.token) {
  Fd socket = unix_socket();
  if (socket && at_name(::bind, socket, meeting.name) && ::listen(socket.get(), takers) == 0)
    listener_ = std::move(socket);
}

void ShmOffer::hand_over(const Fd& memory) {
  while (true) {
    const Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) return;
    std::uint64_t token = 0;
    const bool knows = ::recv(connection.get(), &token, sizeof(token), 0) == sizeof(token) &&
                       token == token_ && is_same_user(connection);
    if (knows) send_descriptor(connection, memory.get());
  }
}

ShmTaker::ShmTaker(const ShmMeeting& meeting) {
  Fd socket = unix_socket();
  if (!socket || !at_name(::connect, socket, meeting.name) || !is_same_user(socket)) return;
  const std::uint64_t token = meeting.token;
  if (::send(socket.get(), &token, sizeof(token), MSG_NOSIGNAL) == sizeof(token))
    connection_ = std::move(socket);
}

Fd ShmTaker::take(std::chrono::milliseconds limit) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  pollfd wait{connection_.get(), POLLIN, 0};
  const auto deadline = steady_clock::now() + limit;
  int ready = 0;
  do {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    ready = ::poll(&wait, 1, static_cast<int>(std::clamp<milliseconds::rep>(left, 0, INT_MAX)));
  } while (ready < 0 && errno == EINTR);  // a signal of the program, such as a profiler's
  return ready == 1 ? receive_descriptor(connection_) : Fd();
}

}  // namespace ddp::internal
