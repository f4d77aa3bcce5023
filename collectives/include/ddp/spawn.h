// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "ddp/error.h"
#include "ddp/export.h"

namespace ddp {

/// How spawn treats what it started.
struct SpawnOptions {
  /// Between SIGTERM and SIGKILL when a process has failed; torch.multiprocessing.spawn's. At
  /// least 0.
  std::chrono::milliseconds grace_period = std::chrono::seconds(30);
};

/// Runs `fn(rank)` in `nprocs` processes, with ranks from 0, and returns when all have ended well:
/// a job on one host, without a launcher, as torch.multiprocessing.spawn starts one.
///
/// Each process is a fork of this one, and so begins with a copy of its memory. It finds the
/// environment of its rank (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT), so init_process_group() joins the others; the store is served by a thread of this
/// process until spawn returns. When `fn` returns the process ends by std::exit(0), which destroys
/// its copies of this program's static objects, too.
///
/// The first failure ends all: an exception from `fn`, an exit code that is not 0, or a signal. The
/// others get SIGTERM, and SIGKILL after the grace period. When this process ends, however it ends,
/// the kernel kills them (PR_SET_PDEATHSIG, prctl(2)). What they start themselves is theirs to end.
///
/// Errors: usage (wrong arguments; or this process has more than one thread, of which a fork would
/// not have the others, but their locks: call it before CUDA or anything else starts one); system;
/// peer_lost (a process failed: names the rank and its exception's text, its exit code or its
/// signal). A rank that failed only because it lost another is not the one named.
///
/// Thread: the only one of the process.
DDP_EXPORT void spawn(int nprocs, const std::function<void(int rank)>& fn,
                      const SpawnOptions& options = {});

}  // namespace ddp
