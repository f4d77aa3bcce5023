// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "agent/ask/socket_folder.h"
#include "agent/ask/status.h"
#include "base/error.h"

// Asking the ddpruns of this user on this host. Blocks, for a command that does nothing else.

namespace ddprun::cli {

/// Sends an HTTP request for `target` to the socket at `path`, and returns the body of the answer.
/// Errors: closed (no process listens there any more), unreachable (it ended before it had
/// answered), timed_out, usage (the answer is a refusal: its sentence), protocol, system.
Result<std::string> ask_socket(const std::string& path, std::string_view method,
                               const std::string& target, std::chrono::milliseconds limit);

/// A job that runs on this host.
struct RunningJob {
  agent::ask::Socket socket;
  agent::ask::JobStatus status;  ///< as its ddprun here knows it
  std::string problem;           ///< why the status is unknown; empty: it is known
};

/// All of them. Removes the sockets of those that have ended without doing so.
std::vector<RunningJob> running_jobs();

/// The one of `jobs` that has this id, or pid; without a name the only one. Several ddpruns of one
/// job count as one. Errors: usage (none, or several: which).
Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs, const std::string& name);

}  // namespace ddprun::cli
