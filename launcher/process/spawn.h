// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "launcher/process/terminal.h"

namespace ddprun::launcher {

/// A program to execute, and its environment.
struct Command {
  std::string program;                   ///< path of the executable; PATH is not searched
  std::vector<std::string> arguments;    ///< argv, program name first
  std::vector<std::string> environment;  ///< "NAME=value"
  int stdin_fd = -1;                     ///< the caller owns these three
  int stdout_fd = -1;                    ///< -1: a pipe, or a pseudo-terminal
  int stderr_fd = -1;
  std::vector<int> cpus = {};                    ///< it may run only on these; empty: on ours
  std::optional<WindowSize> stdout_window = {};  ///< of its pseudo-terminal; nullopt: a pipe
  std::optional<WindowSize> stderr_window = {};
  bool one_terminal = false;        ///< stdout is stderr's: output to both keeps its order
  std::vector<int> inherited = {};  ///< more descriptors, with the same numbers in the child
  /// More of the environment, shared by several commands; nullptr: none.
  std::shared_ptr<const std::vector<std::string>> common_environment = nullptr;
};

/// Returns this process's environment.
std::vector<std::string> own_environment();

/// A started process, and the read ends of its stdout and stderr, or the masters of their
/// pseudo-terminals. These are empty if its command has descriptors for them. `out` is also empty
/// if stdout is stderr's pseudo-terminal.
struct Child {
  pid_t pid;
  Fd pidfd;
  Fd second_pidfd;  ///< Worker needs two
  Fd out;
  Fd err;
  std::optional<Error> no_terminal;  ///< why there are pipes where the command asked for terminals
};

/// The descriptors to which a new process writes, `out` and `err`, until it has copies.
struct OutputEnds {
  int out;
  int err;
  std::array<Fd, 2> of_child;  ///< those of `out` and `err` that were made for it
  Fd read_out;                 ///< these three as in Child
  Fd read_err;
  std::optional<Error> no_terminal;
};

/// Makes what `command` has no descriptors for, of the first of `missing` processes of `all` that
/// are being started. Errors: system.
Result<OutputEnds> open_output(const Command& command, size_t missing, size_t all);

/// The memory that children of `spawn` share with this process until their exec. Destroy it only
/// when each child has called exec or has ended.
class SpawnBatch {
 public:
  SpawnBatch(SpawnBatch&&) noexcept;
  SpawnBatch& operator=(SpawnBatch&&) noexcept;
  ~SpawnBatch();

  /// Why exec failed in child `index`, which has ended; nullopt: exec succeeded. not_executable,
  /// with the program and the reason, or system, if it may run on none of its CPUs.
  std::optional<Error> exec_failure(size_t index) const;

 private:
  struct ChildSetup;
  struct Free {
    size_t shared = 0;  // bytes of memory that forked children share; 0: normal memory
    void operator()(void* memory) const;
  };
  using Setups = std::unique_ptr<ChildSetup[], Free>;
  friend struct Spawned spawn(std::vector<Command> commands);

  explicit SpawnBatch(std::vector<Command> commands);
  Result<Child> launch(size_t index);
  pid_t clone(size_t index, int& pidfd);
  static Setups make_setups(size_t count);
  void share_with_forked();

  std::vector<Command> commands_;
  std::vector<char*> words_;                       // each argv and environment, back to back
  std::vector<std::vector<unsigned long>> masks_;  // each child's CPUs
  Setups setups_;                                  // also shared with forked children
};

/// The result of `spawn`.
struct Spawned {
  std::vector<Child> children;  ///< in the order of the commands
  SpawnBatch batch;
  std::optional<Error> failure;  ///< system: why further commands were not started
};

/// Starts all commands. Each leads its own session and process group, so that one signal reaches
/// all its children, and a terminal's signals do not. Each gets SIGKILL when this process dies, has
/// only stdin, stdout, stderr and the inherited descriptors open, and starts without the signal
/// settings of block_signals. Does not wait for exec.
///
/// This process must have no signal handlers, and its other threads must block all signals.
Spawned spawn(std::vector<Command> commands);

/// Raises this process's limit of open files to the maximum. Children of `spawn` start with the
/// previous limit. Call it at most once.
void raise_open_files_limit();

}  // namespace ddprun::launcher
