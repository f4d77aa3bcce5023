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
Result<> resolve_rendezvous(RawOptions& raw, Mode mode);

/// How many workers there are, and which GPUs the node has for them.
Result<> resolve_workers(RawOptions& raw, const Host& host);

/// Where each of them runs. After resolve_workers. Errors also: system (hwloc fails).
Result<> resolve_bindings(RawOptions& raw, const Host& host);

/// What stands before their lines. After resolve_workers.
Result<> resolve_prefix(RawOptions& raw, const Host& host);

/// What they run: the program itself, or python with it. Errors also: not_found, not_executable.
Result<> resolve_program(RawOptions& raw, std::vector<std::string> command, const Host& host);

}  // namespace ddprun::cli
