// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker.h"

#include <csignal>
#include <sys/wait.h>
#include <utility>

namespace ddprun::launcher {

Worker::Worker(boost::asio::any_io_executor executor, pid_t pid, Fd pidfd)
    : pidfd_(std::move(executor), pidfd.release()), pid_(pid) {}

Worker::~Worker() {
  if (!running_ || !pidfd_.is_open()) return;  // it has ended, or is another Worker's by now
  signal_group(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Worker::when_ended(std::function<void(ExitStatus)> ended) {
  ended_ = std::move(ended);
  wait();
}

void Worker::wait() {
  pidfd_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [this](boost::system::error_code cancelled) {
                      if (cancelled) return;
                      int status = 0;
                      // Asio may mean a descriptor that was closed while its event was in the
                      // queue: to wait for the child here would be to wait for its whole life.
                      if (waitpid(pid_, &status, WNOHANG) == 0) return wait();
                      running_ = false;
                      ended_(ExitStatus(status));
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
