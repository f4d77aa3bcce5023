// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "base/error.h"

// `ddprun help`. Pure.

namespace ddprun::cli {

/// The output of `ddprun -h`: the usage, the flags that most jobs need, all topics, and examples.
std::string short_help();

/// The output of `ddprun help words...`. A topic is a command, a heading of ddprun's page or a
/// flag; without one it is the short help. "--man NAME" is the manual page of this name, for the
/// build. Errors: usage.
Result<std::string> help_output(std::span<const char* const> words);

}  // namespace ddprun::cli
