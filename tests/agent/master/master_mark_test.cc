// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/master/master_connection.h"
#include "base/fd.h"
#include "base/hash.h"
#include "rendezvous/net/port_owner.h"
#include "tests/catch.h"
#include "tests/contains.h"

using namespace ddprun;
using ddprun::agent::MasterMark;

namespace {

/// A job's id that no other running test has.
std::string some_job() {
  return "mark-" + std::to_string(getpid());
}

std::string name_of_mark(const std::string& job) {
  return "ddprun-master/" + std::to_string(geteuid()) + "/" + sha256(job);
}

struct MarkAddress {
  explicit MarkAddress(const std::string& name)
      : size(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    bytes.sun_family = AF_UNIX;
    name.copy(bytes.sun_path + 1, name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }

  sockaddr_un bytes{};
  socklen_t size;
};

/// Another process, of `user`, that listens at the mark of this user's job, and lets nobody
/// connect: its queue is full.
class Squatter {
 public:
  Squatter(const std::string& job, uid_t user) {
    const std::string name = name_of_mark(job);
    REQUIRE(pipe(ready_) == 0);
    pid_ = fork();
    if (pid_ == 0) _exit(run(name, user));
    char byte = 0;
    is_there = read(ready_[0], &byte, 1) == 1 && byte == 'y';
  }
  ~Squatter() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int end : ready_) close(end);
  }
  Squatter(const Squatter&) = delete;

  bool is_there = false;

 private:
  int run(const std::string& name, uid_t user) const {
    if (syscall(SYS_setresuid, user, user, user) != 0) return tell('n');
    const MarkAddress address(name);
    const auto* at = address.get();
    const socklen_t size = address.size;
    const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listening, at, size) != 0 || listen(listening, 0) != 0) return tell('n');
    while (connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), at, size) == 0) {
    }
    return tell('y');
  }

  int tell(char byte) const {
    if (write(ready_[1], &byte, 1) != 1) return 1;
    for (;;) pause();
  }

  int ready_[2] = {-1, -1};
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("one process of a user has the mark of a job's master, until it ends") {
  auto first = std::make_unique<MasterMark>(some_job());
  CHECK(first->take());
  CHECK(first->take());
  MasterMark second(some_job());
  CHECK_FALSE(second.take());
  CHECK(tests::contains(rendezvous::socket_owner(second.owner()),
                        "(pid " + std::to_string(getpid()) + ")"));
  CHECK(MasterMark("another " + some_job()).take());
  first.reset();
  CHECK(second.take());
}

TEST_CASE("another user cannot keep a job from its master by the mark's name") {
  const Squatter own(some_job(), geteuid());
  REQUIRE(own.is_there);
  CHECK_FALSE(MasterMark(some_job()).take());  // that process may be stuck
  if (geteuid() != 0) return;
  const std::string other_job = "other " + some_job();
  const Squatter other(other_job, 54'321);
  REQUIRE(other.is_there);
  CHECK(MasterMark(other_job).take());
}

TEST_CASE("nobody can connect to the mark of a job's master, or send to it") {
  MasterMark mark(some_job());
  REQUIRE(mark.take());
  const MarkAddress address(name_of_mark(some_job()));
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    const Fd stranger(socket(AF_UNIX, type, 0));
    CHECK(connect(stranger.get(), address.get(), address.size) != 0);
    CHECK(sendto(stranger.get(), "x", 1, MSG_NOSIGNAL, address.get(), address.size) < 0);
  }
}
