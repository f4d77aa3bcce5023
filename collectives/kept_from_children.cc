// SPDX-License-Identifier: Apache-2.0
#include "collectives/kept_from_children.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

namespace ddp::internal {
namespace {

/// The inodes of sockets, by descriptor. If a descriptor was closed and reused, it has another
/// inode. So nobody has to report that a socket is closed.
std::array<std::atomic<ino_t>, 1 << 17> inodes;
std::atomic<std::size_t> inodes_end = 0;  // one past the last that is set

ino_t inode_of(int descriptor) {
  struct stat file{};
  const bool is_socket = ::fstat(descriptor, &file) == 0 && S_ISSOCK(file.st_mode);
  return is_socket ? file.st_ino : 0;
}

/// Runs in a child: other threads may have held any lock, so it takes none, and allocates nothing.
void replace_sockets() {
  const int error = errno;
  const ddprun::Fd unconnected(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (std::size_t i = 0; i < inodes_end; ++i) {
    const auto descriptor = static_cast<int>(i);
    if (inodes[i] == 0 || inodes[i] != inode_of(descriptor)) continue;
    if (::dup3(unconnected.get(), descriptor, O_CLOEXEC) < 0) ::close(descriptor);
  }
  errno = error;
}

}  // namespace

void keep_from_children(int socket) noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, replace_sockets);
  static_cast<void>(registered);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  const auto at = static_cast<std::size_t>(socket);
  if (at >= inodes.size()) return;
  inodes[at] = inode_of(socket);
  std::size_t end = inodes_end;
  while (end <= at && !inodes_end.compare_exchange_weak(end, at + 1)) continue;
}

}  // namespace ddp::internal
