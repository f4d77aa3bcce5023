// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "agent/ask/socket_folder.h"
#include "agent/ask/status.h"
#include "base/error.h"

// Asks the ddpruns of this user on this host. Blocks, for a command that does nothing else.

namespace ddprun::cli {

/// Sends an HTTP request for `target` to the socket at `path`, and returns the body of the answer.
/// Errors: closed (no process listens there any more), unreachable (it ended before it had
/// answered), timed_out, usage (a refusal, with its sentence), protocol, system.
Result<std::string> ask_socket(const std::string& path, std::string_view method,
                               const std::string& target, std::chrono::milliseconds limit);

/// A job that runs on this host.
struct RunningJob {
  agent::ask::Socket socket;
  agent::ask::JobStatus status;  ///< as its ddprun here knows it
  std::string problem;           ///< why the status is unknown; empty: it is known
};

/// All running jobs. Removes the sockets that ended ddpruns have left behind.
std::vector<RunningJob> running_jobs();

/// The job with this id or pid; without a name, the only job. Several ddpruns of one job count as
/// one. Errors: usage (no job, or several: names them).
Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs, const std::string& name);

}  // namespace ddprun::cli
