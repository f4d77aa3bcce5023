// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/backends/cuda/device.h"
#include "collectives/backends/cuda/driver.h"
#include "collectives/backends/nccl/library.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

class RegisteredMemory {
 public:
  RegisteredMemory(std::shared_ptr<NcclCommunicator> communicator, std::size_t bytes)
      : communicator_(std::move(communicator)), bytes_(std::max<std::size_t>(bytes, 1)) {
    const OnDevice here(communicator_->device());
    const ncclResult_t result = nccl().ncclMemAlloc(&data_, bytes_);
    if (result == ncclSuccess) return;
    throw Error(ErrorKind::system,
                "ddp: ncclMemAlloc of " + std::to_string(bytes_) + " bytes: " + describe(result));
  }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  /// Waits for the device, as cudaFree does: NCCL would free the memory under a kernel.
  ~RegisteredMemory() {
    const BesideCaptures beside;
    const InContext here(communicator_->device().context());
    if (here) cuda().cuCtxSynchronize();
    communicator_->deregister(registration_);
    if (here) nccl().ncclMemFree(data_);
  }

  void set_to_zero() const {
    const OnDevice here(communicator_->device());
    const CUstream stream = communicator_->stream();
    check_cuda(cuda().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(data_), 0, bytes_, stream),
               "cuMemsetD8Async");
    DeviceEvent done;
    done.record(stream);
    done.wait();
  }

  void enroll() { registration_ = communicator_->register_memory(data_, bytes_); }
  void* data() const { return data_; }

 private:
  const std::shared_ptr<NcclCommunicator> communicator_;
  const std::size_t bytes_;
  void* data_ = nullptr;
  NcclCommunicator::Registration registration_;
};

}  // namespace

std::shared_ptr<void> allocate_registered(const std::shared_ptr<NcclCommunicator>& communicator,
                                          std::size_t bytes) {
  const BesideCaptures beside;
  const auto memory = std::make_shared<RegisteredMemory>(communicator, bytes);
  memory->set_to_zero();
  memory->enroll();
  return {memory, memory->data()};
}

}  // namespace ddp::internal
