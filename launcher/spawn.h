// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
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
  int stdin_fd = -1;                     ///< these three stay the caller's
  int stdout_fd = -1;                    ///< -1: a pipe
  int stderr_fd = -1;
  std::vector<int> cpus = {};  ///< it may run on these alone; empty: where we may
};

/// A process that was started, its pidfd twice (who waits for it needs two: see Worker), and the
/// ends to read of the pipes that are its stdout and stderr; empty where its command has another
/// descriptor for that.
struct Child {
  pid_t pid;
  Fd pidfd;
  Fd same_pidfd;
  Fd out;
  Fd err;
};

/// Our memory, in which children of `spawn` run until they are their programs. Destroy it only when
/// each of them is, or has ended.
class SpawnBatch {
 public:
  SpawnBatch(SpawnBatch&&) noexcept;
  SpawnBatch& operator=(SpawnBatch&&) noexcept;
  ~SpawnBatch();

  /// Why child number `index`, which has ended, never became its program: not_executable, with the
  /// program and the reason, or system, when it may run on none of its CPUs; nullopt: it had become
  /// it.
  std::optional<Error> exec_failure(size_t index) const;

 private:
  struct Start;
  friend struct Spawned spawn(const std::vector<Command>& commands);

  explicit SpawnBatch(const std::vector<Command>& commands);
  Result<Child> launch(size_t index);

  std::unique_ptr<char[]> bytes_;                  // of all programs, arguments and environments
  std::vector<char*> words_;                       // each argv and environment, one after the other
  std::vector<std::vector<unsigned long>> masks_;  // of their CPUs
  std::unique_ptr<Start[]> starts_;
};

/// What `spawn` has started.
struct Spawned {
  std::vector<Child> children;  ///< in the order of the commands
  SpawnBatch batch;
  std::optional<Error> failure;  ///< system: why the rest of the commands was not started
};

/// Starts all commands, each as the leader of a session and process group of its own, so that one
/// signal reaches all it forks and a terminal's signals reach none of it. Each dies with the
/// process that started it, finds no descriptor open but the three, and no signal blocked or
/// ignored that launcher::block_signals had touched. Does not wait for any exec.
///
/// For a process with one thread that handles no signal.
Spawned spawn(const std::vector<Command>& commands);

/// Raises this process's limit of open files as far as it may. Children of `spawn` start with the
/// limit it had before. Call it at most once.
void raise_open_files_limit();

}  // namespace ddprun::launcher
