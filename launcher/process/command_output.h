// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"

namespace ddprun::launcher {

/// The stdout of the command `words`, at most 64 KiB. As for env(1), words such as
/// NAME=value may come first, which are added to this process's environment; PATH is searched.
/// After `limit` it is killed. Its exit code is not looked at: of one that fails there is usually
/// nothing. Blocks; for any thread. Errors: system, not_executable, timed_out.
Result<std::string> output_of(const std::vector<std::string>& words,
                              std::chrono::milliseconds limit);

}  // namespace ddprun::launcher
