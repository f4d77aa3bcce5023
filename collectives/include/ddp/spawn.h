// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "ddp/error.h"
#include "ddp/export.h"

namespace ddp {

/// How spawn starts its processes.
enum class StartMethod {
  /// Each is a fork of this process and begins with a copy of its memory. Needs a process that has
  /// no other threads: a fork has a copy of their locks but not the threads.
  fork,
  /// Each runs this program again from the beginning (/proc/self/exe with the same arguments), as
  /// Python's multiprocessing does with its method "spawn". main() comes to the same call of spawn,
  /// which then runs `fn` instead of starting processes, and exits. So each process also runs what
  /// main() does before the call, and `fn` sees the results of that, not this process's memory.
  /// Earlier calls of spawn return at once there. For programs with threads: libraries such as
  /// OpenBLAS start some when they are loaded.
  exec,
};

/// How spawn starts and ends its processes.
struct SpawnOptions {
  /// The time between SIGTERM and SIGKILL when a process has failed, as of
  /// torch.multiprocessing.spawn. At least 0.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);

  /// Whether to copy this process or to run its program again.
  StartMethod start_method = StartMethod::fork;
};

/// Runs `fn(rank)` in `nprocs` processes, with ranks from 0, and returns when all have succeeded: a
/// job on one host without a launcher, like torch.multiprocessing.spawn.
///
/// Each process has the environment variables of its rank (RANK, LOCAL_RANK, WORLD_SIZE,
/// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), so init_process_group() joins the others; a thread
/// of this process serves the store until spawn returns. When `fn` returns, the process calls
/// std::exit(0), which also destroys its copies of this program's static objects.
///
/// The first failure ends all processes: an exception from `fn`, an exit code that is not 0, or a
/// signal. The others get SIGTERM, and SIGKILL after the grace period. When this process dies, for
/// any reason, the kernel kills them (PR_SET_PDEATHSIG, prctl(2)), but not what they have started.
///
/// Errors: usage (wrong arguments; with StartMethod::fork, this process has more than one thread:
/// call spawn before CUDA or anything else starts one; with StartMethod::exec, this process was
/// itself spawned); system; peer_lost (a process failed: names the rank and its exception's text,
/// its exit code or its signal). A rank that failed only because it lost another rank is not named.
///
/// Thread: any, one call at a time; with StartMethod::fork the only one of the process.
DDP_EXPORT void spawn(int nprocs, const std::function<void(int rank)>& fn,
                      const SpawnOptions& options = {});

}  // namespace ddp
