// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/job/job_spec.h"

namespace ddprun::agent {

/// The argv of the worker with this local rank: the job's command with JobSpec::local_rank_flag,
/// which has the same value as LOCAL_RANK. In the program's own arguments ${local_rank} becomes the
/// local rank, also under --virtual_local_rank, and $${local_rank} becomes ${local_rank}; any other
/// $ stays. Pure.
std::vector<std::string> worker_command(const JobSpec& job, int local_rank);

}  // namespace ddprun::agent
