// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddprun::cli {

/// The numbers of comma-separated names of signals, each once. A name is in either case, with or
/// without "SIG". Pure.
///
/// Errors: usage; the sentence follows the flag's name: "got the unknown signal 'SIGTREM'; did you
/// mean SIGTERM?". Signals that no process can catch, or that do not ask a process to end
/// (signal(7)), are errors, too.
Result<std::vector<int>> parse_signals(std::string_view text);

}  // namespace ddprun::cli
