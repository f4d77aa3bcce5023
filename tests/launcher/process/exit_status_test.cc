// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/exit_status.h"

#include <csignal>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

using ddprun::launcher::ExitStatus;
using ddprun::launcher::signal_name;

namespace {

/// The status of a real child that ran `end`.
template <class End>
ExitStatus status_of(End end) {
  const pid_t child = fork();
  if (child == 0) {
    end();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return ExitStatus(status);
}

}  // namespace

TEST_CASE("every exit code comes through unchanged") {
  for (const int code : {0, 1, 2, 77, 127, 255}) {
    const ExitStatus status = status_of([=] { _exit(code); });
    CHECK(status.code() == code);
    CHECK(status.signal() == 0);
    CHECK(status.success() == (code == 0));
    CHECK(status.text() == "exit " + std::to_string(code));
  }
}

TEST_CASE("death by a signal is 128 + its number, and has the signal's name") {
  const ExitStatus killed = status_of([] { raise(SIGKILL); });
  CHECK(killed.code() == 137);
  CHECK(killed.signal() == SIGKILL);
  CHECK(killed.text() == "killed by SIGKILL");
  CHECK_FALSE(killed.success());
}

TEST_CASE("signals have their usual names") {
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(SIGRTMIN) == "SIGRTMIN");
  CHECK(signal_name(SIGRTMIN + 2) == "SIGRTMIN+2");
  CHECK(signal_name(1000) == "signal 1000");
  CHECK(signal_name(0) == "signal 0");
  CHECK(signal_name(-1) == "signal -1");
  for (int signal = SIGHUP; signal <= SIGSYS; ++signal) {
    CHECK(signal_name(signal) == std::string("SIG") + sigabbrev_np(signal));
  }
}
