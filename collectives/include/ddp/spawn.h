// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "ddp/error.h"
#include "ddp/export.h"

namespace ddp {

/// How spawn ends its processes.
struct SpawnOptions {
  /// The time between SIGTERM and SIGKILL when a process has failed, as of
  /// torch.multiprocessing.spawn. At least 0.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);
};

/// Runs `fn(rank)` in `nprocs` processes, with ranks from 0, and returns when all have succeeded: a
/// job on one host without a launcher, like torch.multiprocessing.spawn.
///
/// Each process is a fork of this one and begins with a copy of its memory. It has the environment
/// variables of its rank (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT), so init_process_group() joins the others; a thread of this process serves the
/// store until spawn returns. When `fn` returns, the process calls std::exit(0), which also
/// destroys its copies of this program's static objects.
///
/// The first failure ends all processes: an exception from `fn`, an exit code that is not 0, or a
/// signal. The others get SIGTERM, and SIGKILL after the grace period. When this process dies, for
/// any reason, the kernel kills them (PR_SET_PDEATHSIG, prctl(2)), but not what they have started.
///
/// Errors: usage (wrong arguments; or this process has more than one thread: a fork has a copy of
/// their locks but not the threads, so call spawn before CUDA or anything else starts one); system;
/// peer_lost (a process failed: names the rank and its exception's text, its exit code or its
/// signal). A rank that failed only because it lost another rank is not the one that is named.
///
/// Thread: the only one of the process.
DDP_EXPORT void spawn(int nprocs, const std::function<void(int rank)>& fn,
                      const SpawnOptions& options = {});

}  // namespace ddp
