// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "remote/job.h"

namespace ddprun::remote {

/// Starts the agents of `job`, passes their output on to stdout and stderr, and signals of this
/// process to them, until all have ended. Returns the exit code of the whole: Roster::code. When it
/// returns, every process that it started has ended.
///
/// Call it once, in the agent of launcher::guard, with launcher::block_signals in force. Errors:
/// system.
Result<int> launch(const Job& job);

}  // namespace ddprun::remote
