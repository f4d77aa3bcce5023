// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// What to execute, and what the new process finds open.
struct Command {
  std::string program;                   ///< path of the executable; PATH is not searched
  std::vector<std::string> arguments;    ///< argv, program name first
  std::vector<std::string> environment;  ///< "NAME=value", all of it
  int stdin_fd = -1;                     ///< stays the caller's
};

/// A process that was started, and the ends to read of the pipes that are its stdout and stderr.
struct Child {
  pid_t pid;
  Fd out;
  Fd err;
};

/// Tells why a child never became its program.
class ExecFailures {
 public:
  ExecFailures() = default;
  explicit ExecFailures(Fd pipe) : pipe_(std::move(pipe)) {}

  /// For a child that has ended: not_executable, with `program` and the reason; nullopt: it had
  /// become its program.
  std::optional<Error> of(pid_t pid, const std::string& program);

 private:
  Fd pipe_;  // each child that fails to exec writes one record
  std::map<pid_t, int> errnos_;
};

/// What `spawn` has started.
struct Spawned {
  std::vector<Child> children;  ///< in the order of the commands
  ExecFailures exec_failures;
  std::optional<Error> failure;  ///< system: why the rest of the commands was not started
};

/// Starts all commands, each as the leader of a session and process group of its own, so that one
/// signal reaches all it forks and a terminal's signals reach none of it. Each dies with the
/// process that started it, finds no descriptor open but the three, and no signal blocked or
/// ignored that launcher::take_signals had touched. Does not wait for any exec.
///
/// For a process with one thread.
Spawned spawn(const std::vector<Command>& commands);

/// Raises this process's limit of open files as far as it may. Children of `spawn` start with the
/// limit it had before. Call it at most once.
void raise_open_files_limit();

}  // namespace ddprun::launcher
