// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"

namespace ddprun::launcher {

/// The stdout of the command `words`, at most 64 KiB. As for env(1), words such as NAME=value may
/// come first; they are added to this process's environment. Searches PATH. Kills the command after
/// `limit`. Ignores its exit code: a command that fails usually prints nothing there. Blocks; for
/// any thread. Errors: system, not_executable, timed_out.
Result<std::string> output_of(const std::vector<std::string>& words,
                              std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
