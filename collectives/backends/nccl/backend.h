// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Whether NCCL and the driver are installed, and CUDA_VISIBLE_DEVICES does not hide every GPU.
/// Leaves the driver uninitialized: a program that uses no GPU may still fork children that do.
bool can_use_nccl() noexcept;

/// Throws ddp::Error of kind usage that says what is missing: a GPU, NCCL, or a new enough NCCL.
/// Initializes the driver.
void require_nccl();

/// Throws ddp::Error of kind usage for a setting that the loaded NCCL does not know. Call
/// can_use_nccl() or require_nccl() first.
void check_nccl_options(const NcclOptions& options);

/// Makes the backend for buffers on a device; `host` does tasks with buffers in host memory. NCCL
/// connects the ranks at once on the context's device. If that is empty, the first call with
/// buffers on a device connects them, on the buffers' device, or else on choose_device(). Then
/// init_process_group() touches no GPU, and a group that moves nothing there uses no GPU memory.
std::unique_ptr<Backend> make_nccl_backend(GroupContext context, std::unique_ptr<Backend> host);

/// The same for ranks that are all in this process, one for each of the `devices`: without a host
/// backend, and connected at once.
std::vector<std::unique_ptr<Backend>> make_local_nccl_backends(std::span<const int> devices,
                                                               std::chrono::milliseconds timeout);

/// See ddp::group_call().
void run_nccl_group(const std::function<void()>& calls);

/// See NcclGroup::abort_together(). Also works in builds and processes without NCCL.
void abort_together(const std::function<void()>& work);

/// See ddp::local_device().
int local_gpu();

/// All of this process's GPUs, at least one. Throws ddp::Error of kind usage if there is none.
std::vector<int> list_gpus();

/// Throws ddp::Error of kind usage if it is not in list_gpus().
void check_gpu(int device);

}  // namespace ddp::internal
