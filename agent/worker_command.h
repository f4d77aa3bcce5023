// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/job_spec.h"

namespace ddprun::agent {

/// The argv of the worker with this local rank: the job's command, and in it the local rank where
/// the job asks for that, as LOCAL_RANK tells it, and its place on the node for each ${local_rank}
/// in the program's own arguments. $${local_rank} stands for ${local_rank} itself; no other $ is
/// looked at. Pure.
std::vector<std::string> worker_command(const JobSpec& job, int local_rank);

}  // namespace ddprun::agent
