// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_status.h"

#include <csignal>
#include <cstring>
#include <sys/wait.h>

namespace ddprun::launcher {

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
  if (const char* name = sigabbrev_np(signal)) return std::string("SIG") + name;
  if (signal == SIGRTMIN) return "SIGRTMIN";
  if (signal > SIGRTMIN && signal <= SIGRTMAX) {
    return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  }
  return "signal " + std::to_string(signal);
}

}  // namespace ddprun::launcher
