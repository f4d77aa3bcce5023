// SPDX-License-Identifier: Apache-2.0
#include "agent/master/master_mark.h"

#include <cerrno>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "agent/ask/unix_socket.h"
#include "base/sha256.h"

namespace ddprun::agent {
namespace {

constexpr int kAttempts = 9;

}  // namespace

/// Hashes the job's id: everybody can read such names, and a stranger may join with just the id.
MasterMark::MasterMark(const std::string& run_id)
    : name_('\0' + ("ddprun-master/" + std::to_string(geteuid())) + "/" + sha256(run_id)) {}

/// The socket does not listen, so nobody can connect to it or send it anything. If the kernel does
/// not say who has the name, it is safer to wait.
bool MasterMark::take() {
  if (socket_) return true;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return true;
    if (bind_to(socket, name_)) {
      socket_ = std::move(socket);
      return true;
    }
    if (errno != EADDRINUSE) return true;
    const std::optional<AbstractSocket> holder = abstract_socket(name_);
    if (holder && holder->user != geteuid()) return true;
    owner_ = holder ? holder->inode : 0;
    if (holder) return false;
  }
  return false;
}

}  // namespace ddprun::agent
