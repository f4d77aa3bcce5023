// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker.h"

#include <csignal>
#include <sys/wait.h>
#include <utility>

namespace ddprun::launcher {

Worker::Worker(const boost::asio::any_io_executor& executor, Child& child)
    : end_(executor, child.pidfd.release()), pid_(child.pid) {}

Worker::Worker(Worker&& other) noexcept
    : end_(std::move(other.end_)),
      pid_(other.pid_),
      ended_(std::move(other.ended_)),
      running_(std::exchange(other.running_, false)) {}

Worker::~Worker() {
  if (!running_) return;
  signal_group(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Worker::when_ended(std::function<void(ExitStatus)> ended) {
  ended_ = std::move(ended);
  wait();
}

void Worker::wait() {
  using boost::asio::posix::descriptor_base;
  end_.async_wait(descriptor_base::wait_read, [this](boost::system::error_code cancelled) {
    if (cancelled) return;
    int status = W_EXITCODE(1, 0);  // stays if another has reaped the child
    // The event may be of an earlier descriptor with this number, closed while it was queued.
    if (waitpid(pid_, &status, WNOHANG) == 0) return wait();
    running_ = false;
    end_.close();
    ended_(ExitStatus(status));
  });
}

bool Worker::is_dead() const {
  if (!running_) return true;
  siginfo_t info = {};
  constexpr int kLook = WEXITED | WNOHANG | WNOWAIT;
  return waitid(P_PID, static_cast<id_t>(pid_), &info, kLook) == 0 && info.si_pid != 0;
}

int Worker::stopped_by() const {
  siginfo_t info = {};
  if (!running_ || waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) != 0) return 0;
  return info.si_pid != 0 ? info.si_status : 0;
}

bool Worker::was_continued() const {
  siginfo_t info = {};
  constexpr int kLook = WCONTINUED | WNOHANG;
  return running_ && waitid(P_PID, static_cast<id_t>(pid_), &info, kLook) == 0 && info.si_pid != 0;
}

void Worker::signal_group(int signal) {
  if (!running_) return;
  // Before its setsid the child has no group and no children; the signal is blocked until exec.
  if (kill(-pid_, signal) != 0) kill(pid_, signal);
}

void Worker::signal_leader(int signal) {
  if (running_) kill(pid_, signal);
}

}  // namespace ddprun::launcher
