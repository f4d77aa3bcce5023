// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/outcome.h"

namespace ddprun::cli {

/// What ddprun ends with. Schedulers decide by it, so this table is an interface.
///
///   Succeeded      0
///   WorkerFailed   its exit code, or 128 + the signal that killed it
///   Interrupted    128 + the signal ddprun was stopped by
///   Error          2 usage, 124 timed out, 126 the program cannot be executed,
///                  127 there is no such program, 125 everything else that is ddprun's own
int exit_code(const agent::Outcome& outcome);

/// The last row of that table.
int exit_code(const Error& error);

}  // namespace ddprun::cli
