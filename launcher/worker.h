// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/process/v2/process.hpp>

#include "launcher/exit_status.h"
#include "launcher/spawn.h"

namespace ddprun::launcher {

/// A child of `spawn` with everything in its process group, until its end.
///
/// Destroying a Worker that still runs kills its group with SIGKILL and reaps the child.
/// Thread: the executor's.
class Worker {
 public:
  /// Takes over the process and its pidfds, not its pipes: nobody else waits for it.
  Worker(const boost::asio::any_io_executor& executor, Child& child);

  Worker(Worker&&) noexcept = default;
  Worker& operator=(Worker&&) = delete;
  ~Worker();

  pid_t pid() const { return pid_; }
  bool running() const { return running_; }

  /// Whether the child has ended, be it that `ended` was not called yet.
  bool is_dead() const;

  /// Calls `ended` once, from the executor, as soon as the child has ended and was reaped. The
  /// Worker must outlive the call or the executor's last turn, and must not move.
  void when_ended(std::function<void(ExitStatus)> ended);

  /// Sends `signal` to the whole process group. Does nothing after the child was reaped: its
  /// group's number may belong to somebody else by then.
  void signal_group(int signal);

  /// Sends `signal` to the child alone, under the same rule.
  void signal_leader(int signal);

 private:
  void wait();

  boost::process::v2::basic_process<boost::asio::any_io_executor> process_;
  boost::asio::posix::stream_descriptor end_;  // the same pidfd, readable at its end
  pid_t pid_;
  std::function<void(ExitStatus)> ended_;
  bool running_ = true;
};

}  // namespace ddprun::launcher
