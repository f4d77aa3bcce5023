// SPDX-License-Identifier: Apache-2.0
// Instead of mpi_device.cc, where the headers of NCCL or CUDA were missing.
#include "collectives/backends/mpi/device.h"
#include "ddp/error.h"

namespace ddp::internal {

struct MpiDevice::Gpu {};

MpiDevice::MpiDevice(bool mpi_is_cuda_aware) : mpi_is_cuda_aware_(mpi_is_cuda_aware) {}
MpiDevice::~MpiDevice() = default;

void MpiDevice::check(const Task& /*task*/) {
  throw Error(ErrorKind::usage,
              "ddp: this libddp was built without buffers on a device; build it where nccl.h and "
              "cuda.h are, with -DDDPRUN_NCCL=ON");
}

// What follows is only asked for after check().
void MpiDevice::mark(Task& /*task*/) {}
void MpiDevice::run(const Task& /*task*/, int /*rank*/, int /*size*/,
                    const std::function<void(const Task&)>& /*call*/) {}
std::unique_ptr<MpiDevice::Lent> MpiDevice::lend(Task& /*task*/) {
  return nullptr;
}
void copy_on_device(const Task& /*task*/, std::size_t /*bytes*/) {}

}  // namespace ddp::internal
