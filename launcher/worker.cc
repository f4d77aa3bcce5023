// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker.h"

#include <csignal>
#include <sys/wait.h>
#include <utility>

namespace ddprun::launcher {

Worker::Worker(const boost::asio::any_io_executor& executor, Child& child)
    : process_(executor, child.pid, child.pidfd.release()),
      end_(executor, child.second_pidfd.release()),
      pid_(child.pid) {}

Worker::~Worker() {
  if (process_.is_open()) signal_group(SIGKILL);  // ~process reaps, but kills only the child
}

void Worker::when_ended(std::function<void(ExitStatus)> ended) {
  ended_ = std::move(ended);
  wait();
}

void Worker::wait() {
  end_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                  [this](boost::system::error_code cancelled) {
                    if (cancelled) return;
                    // The event may be of an earlier descriptor with this number, closed while the
                    // event was queued. Boost.Process's own wait would then block until the child
                    // ends.
                    if (!is_dead()) return wait();
                    if (rest_signal_ != 0) signal_group(rest_signal_);  // it keeps its pid so far
                    if (process_.running(cancelled)) return wait();
                    running_ = false;
                    const ExitStatus status(process_.native_exit_code());
                    process_.detach();  // the pid may be reused from now on
                    ended_(status);
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

}  // namespace ddprun::launcher
