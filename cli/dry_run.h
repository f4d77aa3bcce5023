// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/job/job_spec.h"
#include "cli/host.h"

namespace ddprun::cli {

/// The text of --dry_run: a line about the node, then for each worker a line with the variables
/// that ddprun sets and the command, quoted for a shell. If the start chooses a port, it is PORT;
/// values that depend on other nodes are ?. The ranks assume, and the text says so, that all nodes
/// have as many workers as this one.
std::string dry_run_text(const agent::JobSpec& job, const Host& host);

}  // namespace ddprun::cli
