// SPDX-License-Identifier: Apache-2.0
// Replaces device.cc in a build without the headers of NCCL or CUDA.
#include "collectives/backends/mpi/device.h"

namespace ddp::internal {

struct MpiDevice::Gpu {};

MpiDevice::MpiDevice(bool mpi_is_cuda_aware) : mpi_is_cuda_aware_(mpi_is_cuda_aware) {}
MpiDevice::~MpiDevice() = default;

// Not called: check_host_call() refuses buffers on a device.
void MpiDevice::record_ready(Task& /*task*/) {}
std::size_t MpiDevice::piece_bytes() const {
  return 0;
}
void MpiDevice::run(std::span<const Task> /*pieces*/, int /*rank*/, int /*size*/,
                    const std::function<void(const Task&)>& /*call*/) {}
std::unique_ptr<MpiDevice::StagedMessages> MpiDevice::stage(Task& /*task*/) {
  return nullptr;
}

}  // namespace ddp::internal
