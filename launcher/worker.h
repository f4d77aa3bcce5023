// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/process/v2/process.hpp>

#include "base/error.h"
#include "base/fd.h"
#include "launcher/exit_status.h"

namespace ddprun::launcher {

/// What to execute, and what the new process finds open.
struct Command {
  std::string program;                   ///< path of the executable; PATH is not searched
  std::vector<std::string> arguments;    ///< argv, program name first
  std::vector<std::string> environment;  ///< "NAME=value", all of it
  int stdin_fd = -1;                     ///< the three descriptors stay the caller's
  int stdout_fd = -1;
  int stderr_fd = -1;
};

/// Raises this process's limit of open files as far as it may. Workers start with the limit it had
/// before. Call it at most once.
void raise_open_files_limit();

/// One child process: the leader of a session and process group of its own, so that one signal
/// reaches all it forks and a terminal's signals reach none of it. It dies with the process that
/// started it, and finds no descriptor open but the three.
///
/// Destroying a Worker that still runs kills its group with SIGKILL and reaps the child.
/// Thread: the executor's.
class Worker {
 public:
  /// Starts `command`, without waiting until it runs. Errors: system (no process could be made).
  static Result<Worker> spawn(boost::asio::any_io_executor executor, const Command& command);

  Worker(Worker&&) = default;
  Worker& operator=(Worker&&) = delete;
  ~Worker();

  pid_t pid() const { return pid_; }
  bool running() const { return running_; }

  /// Calls `ended` once, from the executor, as soon as the child has ended and was reaped. The
  /// Worker must outlive the call or the executor's last turn.
  void when_ended(std::function<void(ExitStatus)> ended);

  /// Once it has ended: why it never became the program (not_executable, with program and reason).
  /// nullopt: it did. Ask once.
  std::optional<Error> exec_failure() const;

  /// Sends `signal` to the whole process group. Does nothing after the child was reaped: its
  /// group's number may belong to somebody else by then.
  void signal_group(int signal);

  /// Sends `signal` to the child alone, under the same rule.
  void signal_leader(int signal);

 private:
  using Process = boost::process::v2::basic_process<boost::asio::any_io_executor>;

  Worker(Process process, std::string program, Fd exec_failure);

  Process process_;
  pid_t pid_;
  std::string program_;
  Fd exec_failure_;
  bool running_ = true;
};

}  // namespace ddprun::launcher
