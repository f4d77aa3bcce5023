// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <sys/types.h>
#include <vector>

#include "launcher/devices/gpu_wait.h"

namespace ddprun::launcher {

/// Calls `found` with the threads of each of these processes that run inside the driver or NCCL,
/// if it has such; until it returns false. A thread that runs all the time for some 20 ms, in a
/// process that has loaded the driver, is stopped for some 0.2 ms for that, in the way of
/// StoppedThread, with its demands on the caller: one that sleeps now and then does not wait for a
/// GPU, and a call in which it sleeps might fail with EINTR. Without those that may not be stopped.
/// It reads maps, which may block for as long as the process changes its memory.
void find_gpu_waits(const std::vector<pid_t>& pids, bool main_threads_only,
                    const std::function<bool(pid_t, std::vector<GpuWait>)>& found);

}  // namespace ddprun::launcher
