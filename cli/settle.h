// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/host.h"

namespace ddprun::cli {

// The rules across flags: each takes what was chosen into the job. Errors: usage, one line that
// names the flag, the value, and what would be right.

/// Where the nodes meet, and which of them this one is.
Result<> settle_rendezvous(Choices& choices, Mode mode);

/// How many workers there are, and which GPUs the node has for them.
Result<> settle_workers(Choices& choices, const Host& host);

/// Where each of them runs. After settle_workers. Errors also: system (hwloc fails).
Result<> settle_bindings(Choices& choices, const Host& host);

/// What stands before their lines. After settle_workers.
Result<> settle_prefix(Choices& choices, const Host& host);

/// What they run: the program itself, or python with it. Errors also: not_found, not_executable.
Result<> settle_program(Choices& choices, std::vector<std::string> command, const Host& host);

}  // namespace ddprun::cli
