// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace ddprun::launcher {

// Sets of CPUs are their numbers as the kernel counts them, ascending.

/// The CPUs this process may run on: its affinity mask, as nproc(1) counts it, which never leaves
/// its cpuset (sched_setaffinity(2), cpuset(7)). A container's CPU quota is a share of time, not a
/// set of CPUs: torchrun's users do not expect it to count, and neither do we.
std::vector<int> allowed_cpus();

/// `cpus` as a bit mask for sched_setaffinity(2).
std::vector<unsigned long> affinity_mask(const std::vector<int>& cpus);

}  // namespace ddprun::launcher
