// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"
#include "cli/host.h"
#include "cli/line/raw_options.h"

namespace ddprun::cli {

/// Sets flags that neither the command line nor the environment gives to the values of the
/// scheduler's job (engine/). If the user gives --nnodes with another number of nodes than the
/// scheduler's, it is another job: then only --nproc_per_node and --shutdown_timeout are the
/// scheduler's.
///
/// Returns a line with each value and its source: "slurm job 4711.0: --nnodes 2
/// (SLURM_STEP_NODELIST), ..."; empty: there is no engine. Errors: usage.
Result<std::string> apply_engine(RawOptions& raw, const Host& host);

/// Whether the scheduler is Slurm, for a command that needs no other value.
bool is_in_slurm(const RawOptions& raw, const Host& host);

}  // namespace ddprun::cli
