// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <vector>

#include "launcher/gpu_wait.h"

namespace ddprun::launcher {

/// Whether the process has loaded NVIDIA's driver. For any thread.
bool uses_gpu(pid_t pid);

/// The threads of `pid` that run inside the driver or NCCL. Each that runs is stopped for some 50
/// µs, in the way of StoppedThread, with its demands on the caller. Empty also if this process may
/// not.
std::vector<GpuWait> gpu_waits(pid_t pid);

}  // namespace ddprun::launcher
