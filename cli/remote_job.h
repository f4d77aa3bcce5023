// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/host.h"
#include "cli/line/raw_options.h"
#include "remote/job.h"

namespace ddprun::cli {

/// The job with agents on `raw.remote`'s hosts. Each agent has its own command line, made of
/// `options` (flags in the table's spelling, with values as separate words) and `command` (the
/// program and its arguments). Errors: usage, not_found (there is no ssh).
Result<remote::Job> remote_job(const RawOptions& raw, const std::vector<std::string>& options,
                               const std::vector<std::string>& command, const Host& host);

/// The output of --dry_run: the commands, two lines for each host.
std::string remote_text(const remote::Job& job);

}  // namespace ddprun::cli
