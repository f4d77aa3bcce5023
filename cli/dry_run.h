// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/job_spec.h"
#include "cli/host.h"

namespace ddprun::cli {

/// What running `job` on `host` would do: a line about the node, then one for each worker with the
/// variables ddprun decides and the command, quoted for a shell. A port that will be chosen at the
/// start stands as PORT, what only the other nodes can tell as ?; ranks rest on every node having
/// as many workers as this one, which the text says.
std::string dry_run_text(const agent::JobSpec& job, const Host& host);

}  // namespace ddprun::cli
