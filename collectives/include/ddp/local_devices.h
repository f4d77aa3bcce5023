// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "ddp/export.h"
#include "ddp/process_group.h"

namespace ddp {

/// This process's GPU, as cudaSetDevice() numbers those it sees: that of the calling thread's
/// current CUDA context; else the one with the number that the launcher gave the process on its
/// node (LOCAL_RANK of ddprun and torchrun, OMPI_COMM_WORLD_LOCAL_RANK of Open MPI,
/// MPI_LOCALRANKID of hydra, SLURM_LOCALID), modulo how many it sees; else 0. A group's first call
/// with buffers on a device takes the same one.
///
///     cudaSetDevice(ddp::local_device());
///
/// Errors: usage (no NCCL, no driver, no GPU). Thread: any.
DDP_EXPORT int local_device();

/// One process that drives several GPUs, without a launcher: a group whose rank i is the GPU
/// `devices[i]` of this process; empty: all of its GPUs. What ncclCommInitAll is to NCCL.
///
///     auto gpus = ddp::init_local_devices();
///     ddp::group_call([&] {
///       for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].all_reduce(buffers[i]);
///     });
///
/// The groups move buffers on their devices alone: calls with buffers in host memory, barrier(),
/// objects, new_group() and split() are errors of kind usage. Errors: usage (no NCCL, no GPU, no
/// such device, one twice), system, timed_out.
DDP_EXPORT std::vector<ProcessGroup> init_local_devices(
    const std::vector<int>& devices = {},
    std::chrono::milliseconds timeout = std::chrono::minutes(30));

/// Starts the calls that `calls` makes, with buffers on devices, all at once when it returns. One
/// thread that makes the same call for several ranks has to do it so, or the first would wait for
/// the others; for one rank it makes one start of many small calls (ncclGroupStart, ncclGroupEnd).
/// They run in no order: none may need what another writes.
///
/// Not in it: reductions by band, bor and bxor, all_to_all in place, and the first call of a group
/// that is not connected yet. No group may end in it, and nothing in it may wait for one of its
/// calls. Errors: what `calls` throws, and what the calls do. A Work that was begun in it may be
/// waited for after it.
///
/// A failure meanwhile, be it a call that NCCL refuses or a rank that is lost, fails all of them.
/// What is under way on a device goes on until `calls` is over, for NCCL can end nothing that an
/// open group of calls has; where that takes too long the process ends, as it does when calls
/// cannot be made to.
///
/// Thread: any; the group call is the thread's.
DDP_EXPORT void group_call(const std::function<void()>& calls);

}  // namespace ddp
