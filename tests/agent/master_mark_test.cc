// SPDX-License-Identifier: Apache-2.0
#include "agent/master_mark.h"

#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sha256.h"
#include "tests/catch.h"

using namespace ddprun;
using ddprun::agent::MasterMark;

namespace {

/// A job's id that no other running test has.
std::string some_job() {
  return "mark-" + std::to_string(getpid());
}

/// Another process, of `user`, that listens where a job of this user has its mark, and lets nobody
/// ask: all places for those that do are taken.
class Squatter {
 public:
  Squatter(const std::string& job, uid_t user) {
    std::string name = "ddprun-master/" + std::to_string(geteuid()) + "/" + sha256(job);
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
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
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
  CHECK(second.owner() == getpid());
  CHECK(MasterMark("another " + some_job()).take());
  first.reset();
  CHECK(second.take());
}

TEST_CASE("another user cannot keep a job from its master by the mark's name") {
  const Squatter own(some_job(), geteuid());
  REQUIRE(own.is_there);
  CHECK_FALSE(MasterMark(some_job()).take());  // it may be stuck
  if (geteuid() != 0) return;
  const std::string other_job = "other " + some_job();
  const Squatter other(other_job, 54'321);
  REQUIRE(other.is_there);
  CHECK(MasterMark(other_job).take());
}
