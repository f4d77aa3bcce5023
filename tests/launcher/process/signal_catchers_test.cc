// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/signal_catchers.h"

#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

void end_itself(int) {
  _exit(3);
}

void end_parent(int) {
  kill(getppid(), SIGTERM);
  _exit(0);
}

/// A child that runs `setup`, reports that, and waits for signals.
class Waiting {
 public:
  template <class Setup>
  explicit Waiting(Setup setup) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const Fd reader(ends[0]);
    const Fd writer(ends[1]);
    pid_ = fork();
    if (pid_ == 0) {
      const char byte = 0;
      std::signal(SIGTERM, SIG_DFL);  // not the test's handler
      if (!setup() || ::write(writer.get(), &byte, 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte = 0;
    REQUIRE(::read(reader.get(), &byte, 1) == 1);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    if (pid_ > 0) end();
  }

  pid_t pid() const { return pid_; }

  /// Ends it and returns its wait status. If two signals were sent, it dies by the lower one.
  int end() {
    kill(pid_, SIGTERM);
    return wait();
  }

  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
};

bool has_handler() {
  return std::signal(SIGUSR2, end_itself) != SIG_ERR;
}

bool gets_notice(pid_t worker) {
  return send_notice({worker}, SIGUSR2) == std::vector<pid_t>{worker};
}

TEST_CASE("a process with a handler gets the signal") {
  Waiting process(has_handler);
  CHECK(gets_notice(process.pid()));
  CHECK(WEXITSTATUS(process.wait()) == 3);
}

TEST_CASE("a process that a signal would kill does not get it") {
  Waiting process([] { return true; });
  CHECK_FALSE(gets_notice(process.pid()));
  CHECK(WTERMSIG(process.end()) == SIGTERM);
}

TEST_CASE("a process that waits for the signal without a handler gets it") {
  Waiting process([] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigprocmask(SIG_BLOCK, &set, nullptr) == 0;
  });
  CHECK(gets_notice(process.pid()));
  CHECK(WTERMSIG(process.end()) == SIGTERM);
}

TEST_CASE("the program of a script without a handler gets the signal") {
  Waiting script([] {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    const pid_t program = fork();
    char byte = 0;
    if (program == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::signal(SIGUSR2, end_parent);
      if (::write(ends[1], &byte, 1) != 1) _exit(1);
      for (;;) pause();
    }
    return ::read(ends[0], &byte, 1) == 1;
  });
  CHECK(gets_notice(script.pid()));
  CHECK(WTERMSIG(script.wait()) == SIGTERM);
}

TEST_CASE("a process that is not a child of this one gets no signal") {
  CHECK_FALSE(gets_notice(getppid()));
}

TEST_CASE("a process's status shows what it catches") {
  const std::string status =
      "Name:\ttrain\nSigBlk:\t0000000000000200\nSigIgn:\t0000000000001000\n"
      "SigCgt:\t0000000180000800\n";
  CHECK(catches(status, SIGUSR2));   // bit 11
  CHECK(catches(status, SIGUSR1));   // blocked
  CHECK_FALSE(catches(status, 13));  // ignored
  CHECK_FALSE(catches(status, SIGTERM));
  CHECK_FALSE(catches("", SIGUSR2));
  // A bash with a trap for EXIT; SIGUSR2 would end it.
  CHECK_FALSE(
      catches("Name:\tbash\nSigBlk:\t0000000000010000\nSigCgt:\t0000000043817ef9\n", SIGUSR2));
  // tini, which passes on all signals that it can block.
  CHECK_FALSE(
      catches("Name:\ttini\nSigBlk:\tfffffffe3fcbfa07\nSigCgt:\t0000000000000000\n", SIGUSR2));
}

}  // namespace
}  // namespace ddprun::launcher
