// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/process/exit_status.h"
#include "launcher/process/spawn.h"

namespace ddprun::launcher {

/// A child of `spawn` and its process group, until the child has ended.
///
/// The destructor of a running Worker kills its group with SIGKILL and reaps the child. Thread: the
/// executor's.
class Worker {
 public:
  /// Takes over the process and its pidfds, not its pipes. No other code may wait for the process.
  Worker(const boost::asio::any_io_executor& executor, Child& child);

  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) = delete;
  ~Worker();

  pid_t pid() const { return pid_; }
  bool running() const { return running_; }

  /// Whether the child has ended, also if `ended` was not called yet.
  bool is_dead() const;

  /// The signal that has stopped the child since the last call; 0: none, or the child runs again.
  int stopped_by() const;

  /// Whether the child was continued since the last call, after a signal had stopped it.
  bool was_continued() const;

  /// Calls `ended` once, from the executor, when the child has ended and was reaped. Before that,
  /// calls `held` if the child has ended but its tracer still holds it. The Worker must not move,
  /// and must live until then or until the executor has stopped.
  void when_ended(std::function<void(ExitStatus)> ended, std::function<void()> held = {});

  /// Call at each SIGCHLD: a held child can be reaped only when its tracer lets it go.
  void child_changed();

  /// Sends `signal` to the process group. Does nothing after the child was reaped, because the
  /// group's number may be reused.
  void signal_group(int signal);

  /// When the child has ended, sends `signal` to the rest of the group; 0: sends nothing.
  void signal_rest_at_end(int signal) { rest_signal_ = signal; }

 private:
  void wait();

  struct Process;  // Boost.Process's; its headers would take every includer a second to compile

  std::unique_ptr<Process> process_;
  boost::asio::posix::stream_descriptor end_;  // a second pidfd, readable when the child has ended
  pid_t pid_;
  std::function<void(ExitStatus)> ended_;
  std::function<void()> when_held_;
  bool running_ = true;
  int rest_signal_ = 0;
  bool held_ = false;  // it has ended, but a tracer holds it
};

}  // namespace ddprun::launcher
