// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/job/job_spec.h"

// The GPUs and CPUs that a worker uses. Pure.

namespace ddprun::agent {

/// The GPUs for the worker with this local rank. If every worker sees all GPUs, it is
/// `cuda:LOCAL_RANK`; if there are fewer GPUs than workers, workers share them in turn.
std::vector<std::string> devices_of(const JobSpec& job, int local_rank);

/// The same in one text: "3", "0,1"; empty: none.
std::string device_names(const JobSpec& job, int local_rank);

/// The part of `devices` that belongs to the worker with this local rank when each gets a block of
/// its own: consecutive, every device used, sizes differing by at most one.
std::vector<std::string> device_block(const std::vector<std::string>& devices, int local_rank,
                                      int local_size);

/// GPUs, CPUs and NUMA nodes of the worker with this local rank, for messages: "GPU 3, CPUs
/// 24-31,88-95 (NUMA node 1)". The job must have bindings.
std::string binding_text(const JobSpec& job, int local_rank);

}  // namespace ddprun::agent
