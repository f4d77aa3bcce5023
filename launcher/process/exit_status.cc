// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/exit_status.h"

#include <array>
#include <csignal>
#include <iterator>
#include <sys/wait.h>

namespace ddprun::launcher {
namespace {

// The names of the standard signals, from number 1, as on x86 and Arm (signal(7)). sigabbrev_np(3)
// would need glibc 2.32.
constexpr std::array kNames = {"HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",  "FPE",
                               "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM", "STKFLT",
                               "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",  "XCPU",
                               "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR",  "SYS"};
static_assert(kNames.size() == SIGSYS && SIGUSR1 == 10 && SIGCHLD == 17 && SIGPWR == 30);

}  // namespace

bool ExitStatus::success() const {
  return WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0;
}

int ExitStatus::code() const {
  if (WIFSIGNALED(wait_status_)) return 128 + WTERMSIG(wait_status_);
  return WEXITSTATUS(wait_status_);
}

int ExitStatus::signal() const {
  return WIFSIGNALED(wait_status_) ? WTERMSIG(wait_status_) : 0;
}

std::string ExitStatus::text() const {
  if (signal() == 0) return "exit " + std::to_string(code());
  return "killed by " + signal_name(signal()) + (WCOREDUMP(wait_status_) ? " (core dumped)" : "");
}

std::string signal_name(int signal) {
  if (signal > 0 && signal <= std::ssize(kNames)) return std::string("SIG") + kNames[signal - 1];
  if (signal == SIGRTMIN) return "SIGRTMIN";
  if (signal > SIGRTMIN && signal <= SIGRTMAX) {
    return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  }
  return "signal " + std::to_string(signal);
}

}  // namespace ddprun::launcher
