// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// Whether this process can use the backend: it sees a GPU, and NCCL is there. Never throws.
bool can_use_nccl() noexcept;

/// Throws ddp::Error of kind usage that says what is missing, if it cannot.
void require_nccl();

/// For buffers on a device; `host` is for the others. The ranks meet through NCCL in the first call
/// with buffers on a device, on the device that is current then (choose_device() in nccl_device.h):
/// so init_process_group() does not touch a GPU, and groups that move nothing on one cost nothing
/// there.
std::unique_ptr<Backend> make_nccl_backend(GroupContext context, std::unique_ptr<Backend> host);

/// The same for ranks that are all in this process, one for each of the `devices`: for buffers on a
/// device alone, and connected at once.
std::vector<std::unique_ptr<Backend>> make_local_nccl_backends(std::span<const int> devices,
                                                               std::chrono::milliseconds timeout);

/// As ddp::group_call().
void run_nccl_group(const std::function<void()>& calls);

/// Does the work, and has NCCL end what that aborts of its communicators all at once; without any
/// it is not asked. Does not throw if `work` does not.
void abort_together(const std::function<void()>& work);

/// As ddp::local_device().
int local_gpu();

/// All of this process's GPUs; at least one. Throws ddp::Error of kind usage where there is none.
std::vector<int> list_gpus();

}  // namespace ddp::internal
