// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "remote/job.h"

namespace ddprun::remote {

/// How the job ended.
struct Ending {
  int code = 0;            ///< Roster::code
  bool lost_host = false;  ///< Roster::lost_host
};

/// Starts the agents of `job`. Until all have ended, passes their output on to stdout and stderr,
/// and this process's signals to them. When it returns, every process that it started has ended.
///
/// Call it once, in the agent of launcher::guard, with launcher::block_signals in force. Errors:
/// system.
Result<Ending> launch(const Job& job);

}  // namespace ddprun::remote
