// SPDX-License-Identifier: Apache-2.0
#include "agent/master_mark.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include "agent/abstract_socket.h"
#include "base/sha256.h"

namespace ddprun::agent {
namespace {

/// Nobody accepts those that ask who has it.
constexpr int kMostAsking = 4096;
constexpr int kAttempts = 9;

struct Address {
  sockaddr_un bytes = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

/// A name that no folder has begins with a zero byte, which is there.
Address abstract_address(const std::string& name) {
  Address address;
  address.bytes.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.bytes.sun_path + 1);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Fd new_socket() {
  return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

enum class Held { by_us, by_another_user, no_more };

/// Where too many have asked, so that nobody else can. Where the kernel does not tell, to wait is
/// the safe side.
Held holder_by_list(const std::string& name) {
  const std::optional<uid_t> user = user_listening_at('\0' + name);
  return user && *user != geteuid() ? Held::by_another_user : Held::by_us;
}

/// As the kernel knows it also of a process that is stuck.
Held holder_at(const Address& address, const std::string& name, pid_t& pid) {
  const Fd socket = new_socket();
  if (connect(socket.get(), address.get(), address.size) != 0) {
    return errno == ECONNREFUSED ? Held::no_more : holder_by_list(name);
  }
  ucred owner = {};
  socklen_t size = sizeof owner;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &owner, &size) != 0) {
    return holder_by_list(name);
  }
  pid = owner.pid;
  return owner.uid == geteuid() ? Held::by_us : Held::by_another_user;
}

}  // namespace

/// A job's id may be all that a stranger needs to join, and everybody can read such names.
MasterMark::MasterMark(const std::string& run_id)
    : name_("ddprun-master/" + std::to_string(geteuid()) + "/" + sha256(run_id)) {}

bool MasterMark::take() {
  if (socket_) return true;
  const Address address = abstract_address(name_);
  // It may be between two of its calls, or have ended just now.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Fd socket = new_socket();
    if (!socket) return true;
    if (bind(socket.get(), address.get(), address.size) == 0) {
      listen(socket.get(), kMostAsking);
      socket_ = std::move(socket);
      return true;
    }
    if (errno != EADDRINUSE) return true;
    const Held held = holder_at(address, name_, owner_);
    if (held != Held::no_more) return held == Held::by_another_user;
  }
  return true;
}

}  // namespace ddprun::agent
