// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker.h"

#include <csignal>
#include <sys/wait.h>
#include <utility>

namespace ddprun::launcher {

Worker::Worker(boost::asio::any_io_executor executor, pid_t pid, Fd pidfd)
    : process_(std::move(executor), pid, pidfd.release()), pid_(pid) {}

Worker::~Worker() {
  if (process_.is_open()) signal_group(SIGKILL);  // ~Process reaps, but kills the child alone
}

void Worker::when_ended(std::function<void(ExitStatus)> ended) {
  process_.async_wait([this, ended = std::move(ended)](boost::system::error_code error, int) {
    if (error) return;  // only when the process handle was closed before
    running_ = false;
    ended(ExitStatus(process_.native_exit_code()));
  });
}

bool Worker::is_dead() const {
  if (!running_) return true;
  siginfo_t info = {};
  constexpr int kLook = WEXITED | WNOHANG | WNOWAIT;
  return waitid(P_PID, static_cast<id_t>(pid_), &info, kLook) == 0 && info.si_pid != 0;
}

void Worker::signal_group(int signal) {
  if (!running_) return;
  // A child that has not come to setsid yet is alone, and has the signal blocked until exec.
  if (kill(-pid_, signal) != 0) kill(pid_, signal);
}

void Worker::signal_leader(int signal) {
  if (running_) kill(pid_, signal);
}

}  // namespace ddprun::launcher
