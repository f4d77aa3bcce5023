// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "agent/job/job_spec.h"
#include "agent/worker/worker_setup.h"
#include "launcher/output/output.h"
#include "launcher/process/spawn.h"

// A worker's stdout and stderr are pipes or pseudo-terminals (--tty).

namespace ddprun::agent {

/// Whether the worker's output may be shown byte for byte. Not if ddprun's lines are relayed: a
/// marked line must begin a line.
bool is_shown_as_it_is(const WorkerSetup::Worker& worker);

/// Moves the worker's command out of `worker`, with the windows of its pseudo-terminals. `output`
/// has ddprun's own terminal.
launcher::Command take_command(WorkerSetup::Worker& worker, Tty tty,
                               const launcher::Output& output);

/// Logs a warning if one of these lacks a pseudo-terminal that it should have.
void report_missing_terminals(const std::vector<launcher::Child>& children);

}  // namespace ddprun::agent
