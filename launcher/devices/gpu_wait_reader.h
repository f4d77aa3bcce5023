// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <sys/types.h>
#include <vector>

#include "launcher/devices/gpu_wait.h"

namespace ddprun::launcher {

/// Whether the process has loaded the driver. Thread: any. Reads maps, which may block.
bool has_driver(pid_t pid);

/// Calls `found` for each of these processes that has threads which run inside the driver or NCCL,
/// until `found` returns false. To find them it stops, for some 0.2 ms, each thread that runs
/// without a pause for some 20 ms in a process that has loaded the driver. A thread that sleeps
/// does not wait for a GPU, and its system call might fail with EINTR. Skips threads that may not
/// be stopped. The demands of StoppedThread on the caller apply. Reading maps may block while the
/// process changes its memory.
void find_gpu_waits(const std::vector<pid_t>& pids, bool main_threads_only,
                    const std::function<bool(pid_t, std::vector<GpuWait>)>& found);

}  // namespace ddprun::launcher
