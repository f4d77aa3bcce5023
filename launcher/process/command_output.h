// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/blocking_io.h"
#include "base/error.h"
#include "launcher/process/spawn.h"

namespace ddprun::launcher {

struct CommandOutput {
  std::string text;              ///< of stdout
  bool is_whole = false;         ///< stdout ended in time, within the bound
  std::optional<Error> failure;  ///< why the command could not be executed
};

/// Runs all `commands` at once in this process's environment, without input, until their stdout
/// ends or has `most` bytes, or until `deadline`, and then kills them. Returns their output in
/// order. Blocks; for any thread.
std::vector<CommandOutput> outputs_of(std::vector<Command> commands, size_t most,
                                      Deadline deadline);

/// The stdout of the command `words`, at most 64 KiB. As for env(1), words such as NAME=value may
/// come first; they are added to this process's environment. Searches PATH. Kills the command after
/// `limit`. Ignores its exit code: a command that fails usually prints nothing there. Blocks; for
/// any thread. Errors: system, not_executable, timed_out.
Result<std::string> output_of(const std::vector<std::string>& words,
                              std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
