// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/worker.h"

#include <csignal>
#include <poll.h>
#include <sys/wait.h>
#include <utility>

#include <boost/process/v2/process.hpp>

namespace ddprun::launcher {
namespace {

bool is_readable(int fd) {
  pollfd source = {fd, POLLIN, 0};
  return poll(&source, 1, 0) > 0;
}

}  // namespace

struct Worker::Process : boost::process::v2::basic_process<boost::asio::any_io_executor> {
  using basic_process::basic_process;
};

Worker::Worker(const boost::asio::any_io_executor& executor, Child& child)
    : process_(std::make_unique<Process>(executor, child.pid, child.pidfd.release())),
      end_(executor, child.second_pidfd.release()),
      pid_(child.pid) {}

Worker::Worker(Worker&&) noexcept = default;

Worker::~Worker() {
  if (process_ && process_->is_open())
    signal_group(SIGKILL);  // ~process reaps, but kills only the child
}

void Worker::when_ended(std::function<void(ExitStatus)> ended, std::function<void()> held) {
  ended_ = std::move(ended);
  when_held_ = std::move(held);
  wait();
}

void Worker::wait() {
  end_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                  [this](boost::system::error_code cancelled) {
                    if (cancelled) return;
                    // The event may be that of an earlier descriptor with this number, which was
                    // closed while the event was queued. Boost.Process's own wait would then block
                    // until the child ends.
                    if (!is_readable(end_.native_handle())) return wait();
                    // The child still has its pid here.
                    if (rest_signal_ != 0) signal_group(std::exchange(rest_signal_, 0));
                    if (process_->running(cancelled)) {
                      held_ = true;
                      if (when_held_) when_held_();
                      return;  // another wait would end at once
                    }
                    running_ = false;
                    const ExitStatus status(process_->native_exit_code());
                    process_->detach();  // the pid may be reused from now on
                    ended_(status);
                  });
}

void Worker::child_changed() {
  if (std::exchange(held_, false)) wait();
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
