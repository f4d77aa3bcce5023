// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/job/job_spec.h"
#include "cli/host.h"

namespace ddprun::cli {

/// The text of --dry_run: a line about the node, then for each worker a line with the variables
/// that ddprun sets and the command, quoted for a shell. A port that is chosen at the start is
/// PORT; values that depend on other nodes are ?. Ranks assume that all nodes have as many workers
/// as this one; the text says so.
std::string dry_run_text(const agent::JobSpec& job, const Host& host);

}  // namespace ddprun::cli
