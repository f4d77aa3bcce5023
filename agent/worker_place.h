// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/job_spec.h"

namespace ddprun::agent {

/// Where the worker with this local rank runs: "GPU 3, CPUs 24-31,88-95 (NUMA node 1)". For a job
/// that has bindings. Pure.
std::string worker_place(const JobSpec& job, int local_rank);

}  // namespace ddprun::agent
