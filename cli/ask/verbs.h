// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddprun::cli {

/// Whether a command line, without argv[0], asks about running jobs: its first word is `ls`,
/// `status` ... A user runs a program of such a name as ./ls, or after "--".
bool is_verb(std::span<const std::string> words);

/// Runs the command and returns the exit code: 0; 2 for a wrong use; 1 if there is no such job or
/// it does not answer. Blocks; call it before signals are blocked.
int run_verb(std::span<const std::string> words);

}  // namespace ddprun::cli
