// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/job/outcome.h"

namespace ddprun::cli {

/// The exit code of ddprun. Schedulers depend on it: this table is an interface. Pure.
///
///   JobSucceeded   0
///   JobFailed      the exit code of the first worker that failed, or 128 + its signal
///   Interrupted    128 + the signal that stopped ddprun
///   Error          1 the job ended and had no place for this node, 2 usage, 124 timed out,
///                  126 the program cannot be executed, 127 there is no such program,
///                  125 any other failure of ddprun's own: its port is in use, or the output of
///                  workers that succeeded could not be written
int exit_code(const agent::Outcome& outcome);

/// The last row of that table.
int exit_code(const Error& error);

}  // namespace ddprun::cli
