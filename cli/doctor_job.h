// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/doctor/job.h"
#include "cli/host.h"
#include "cli/line/raw_options.h"

namespace ddprun::cli {

/// `ddprun doctor` with these options, after resolve_rendezvous and resolve_secret. If the program
/// cannot run here, or the node lacks GPUs for its workers, the doctor reports it. Errors: usage.
Result<doctor::Job> doctor_job(RawOptions raw, std::vector<std::string> command, const Host& host);

}  // namespace ddprun::cli
