// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "ddp/export.h"
#include "ddp/process_group.h"

namespace ddp {

/// The number of this process's GPU, among those that are visible to it, as for cudaSetDevice():
/// the GPU of the calling thread's current CUDA context; else this process's local rank modulo the
/// number of visible GPUs (LOCAL_RANK of ddprun and torchrun, OMPI_COMM_WORLD_LOCAL_RANK of Open
/// MPI, MPI_LOCALRANKID of hydra, SLURM_LOCALID); else 0.
///
///     cudaSetDevice(ddp::local_device());
///     auto group = ddp::init_process_group({.device = ddp::local_device()});
///
/// Errors: usage (no NCCL, no driver, no GPU). Thread: any.
DDP_EXPORT int local_device();

/// Makes a group whose rank i is the GPU `devices[i]` of this process (empty: all visible GPUs),
/// for one process that drives several GPUs without a launcher. Corresponds to ncclCommInitAll.
///
///     auto gpus = ddp::init_local_devices();
///     ddp::group_call([&] {
///       for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].all_reduce(buffers[i]);
///     });
///
/// The groups only accept buffers on their devices: calls with buffers in host memory, barrier(),
/// those with objects, new_group(), split() and shrink() throw Error of kind usage. Errors: usage
/// (no NCCL, no GPU, no such device, a device twice), system, timed_out.
DDP_EXPORT std::vector<ProcessGroup> init_local_devices(
    const std::vector<int>& devices = {},
    std::chrono::milliseconds timeout = std::chrono::minutes(30));

/// Starts the calls that `calls` makes, with buffers on devices, together when `calls` returns
/// (ncclGroupStart, ncclGroupEnd). A thread that makes the same call for several ranks needs it:
/// else the first call would wait for the others. For one rank it starts many small calls at once.
/// The calls run in no order: none may need what another writes.
///
/// Not allowed in `calls`: reductions by band, bor and bxor, all_to_all in place, the first call of
/// a group that is not connected yet, the end of a group, and waiting for one of its calls; wait
/// for a Work afterwards. Errors: what `calls` throws, and those of its calls.
///
/// A failure in the meantime, such as a call that NCCL refuses or a lost rank, fails all of the
/// calls. Calls under way on a device continue until `calls` returns, since NCCL cannot end calls
/// of an open group. If that takes too long, the process exits, as when calls cannot be ended.
///
/// Thread: any; a group call only collects the calls of its own thread.
DDP_EXPORT void group_call(const std::function<void()>& calls);

}  // namespace ddp
