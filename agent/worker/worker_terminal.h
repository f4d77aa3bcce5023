// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "agent/job/job_spec.h"
#include "agent/worker/worker_setup.h"
#include "launcher/output/output.h"
#include "launcher/process/spawn.h"

// A worker's stdout and stderr are pipes or pseudo-terminals (--tty).

namespace ddprun::agent {

/// Whether the worker's output may be shown byte for byte. Whoever reads marked lines needs each to
/// begin one.
bool is_shown_as_it_is(const WorkerSetup::Worker& worker);

/// The worker's command, with the windows of its pseudo-terminals; it is moved out of `worker`.
/// `output` has ddprun's own terminal.
launcher::Command take_command(WorkerSetup::Worker& worker, Tty tty,
                               const launcher::Output& output);

/// Logs a warning if one of these has no pseudo-terminal that it was to have.
void report_missing_terminals(const std::vector<launcher::Child>& children);

}  // namespace ddprun::agent
