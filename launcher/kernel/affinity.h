// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace ddprun::launcher {

// A set of CPUs is a vector of the kernel's CPU numbers, ascending.

/// The CPUs that this process may run on: its affinity mask, which nproc(1) counts, too, and which
/// is always within its cpuset (sched_setaffinity(2), cpuset(7)). A container's CPU quota is a
/// share of time, not a set of CPUs. As in torchrun, it does not count here.
std::vector<int> allowed_cpus();

/// `cpus` as a bit mask for sched_setaffinity(2).
std::vector<unsigned long> affinity_mask(const std::vector<int>& cpus);

}  // namespace ddprun::launcher
