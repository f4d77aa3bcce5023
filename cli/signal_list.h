// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddprun::cli {

/// Reads names of signals, with or without "SIG" and in any case, with commas between them: their
/// numbers, each once. Pure.
///
/// Errors: usage, to follow the flag's name: "does not know 'SIGTREM'; did you mean SIGTERM?". So
/// are signals refused that no process can take, or that do not ask it to end (signal(7)).
Result<std::vector<int>> parse_signals(std::string_view text);

}  // namespace ddprun::cli
