// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cuda/device.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "collectives/backends/cuda/driver.h"

namespace ddp::internal {
namespace {

/// Returns 0 if no launcher has set a variable.
int local_rank() {
  for (const char* variable :
       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    const char* const value = std::getenv(variable);
    if (value == nullptr) continue;
    if (const auto number = ddprun::whole_number(value, 0)) return *number;
  }
  return 0;
}

}  // namespace

int choose_device() {
  CUcontext context = nullptr;
  check_cuda(cuda().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (context == nullptr) return local_rank() % count_gpus();
  CUdevice device = 0;
  check_cuda(cuda().cuCtxGetDevice(&device), "cuCtxGetDevice");
  return device;
}

CudaDevice::CudaDevice(int device) : number_(device) {
  check_cuda(cuda().cuDeviceGet(&handle_, device), "cuDeviceGet");
  check_cuda(cuda().cuDevicePrimaryCtxRetain(&context_, handle_), "cuDevicePrimaryCtxRetain");
}

CudaDevice::~CudaDevice() {
  cuda().cuDevicePrimaryCtxRelease(handle_);
}

OnDevice::OnDevice(const CudaDevice& device) {
  check_cuda(cuda().cuCtxPushCurrent(device.context()), "cuCtxPushCurrent");
}

OnDevice::~OnDevice() {
  CUcontext context = nullptr;
  cuda().cuCtxPopCurrent(&context);
}

InContext::InContext(CUcontext context) noexcept
    : is_current_(cuda().cuCtxPushCurrent(context) == CUDA_SUCCESS) {}

InContext::~InContext() {
  CUcontext context = nullptr;
  if (is_current_) cuda().cuCtxPopCurrent(&context);
}

DeviceEvent::DeviceEvent() {
  check_cuda(cuda().cuCtxGetCurrent(&context_), "cuCtxGetCurrent");
  check_cuda(cuda().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

DeviceEvent::~DeviceEvent() {
  if (const InContext here(context_); here) cuda().cuEventDestroy(event_);
}

void DeviceEvent::record(CUstream stream) {
  check_cuda(cuda().cuEventRecord(event_, stream), "cuEventRecord");
}

void DeviceEvent::make_wait(CUstream stream) const {
  check_cuda(cuda().cuStreamWaitEvent(stream, event_, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
}

bool DeviceEvent::is_reached() const {
  const CUresult result = cuda().cuEventQuery(event_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  check_cuda(result, "cuEventQuery");
  return true;
}

void DeviceEvent::wait() const {
  check_cuda(cuda().cuEventSynchronize(event_), "cuEventSynchronize");
}

std::unique_ptr<DeviceEvent> DeviceEvents::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  return std::make_unique<DeviceEvent>();
}

void DeviceEvents::give_back(std::unique_ptr<DeviceEvent> event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(event));
}

std::optional<unsigned long long> number_of(CUstream stream) {
  unsigned long long number = 0;
  const auto get = cuda().cuStreamGetId;
  if (get == nullptr || get(stream, &number) != CUDA_SUCCESS) return std::nullopt;
  return number;
}

bool is_capturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The error is ignored: this is the legacy default stream and another stream is being captured.
  // The next call with this stream reports that.
  cuda().cuStreamIsCapturing(stream, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

BesideCaptures::BesideCaptures() {
  cuda().cuThreadExchangeStreamCaptureMode(&mode_);
}

BesideCaptures::~BesideCaptures() {
  cuda().cuThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace ddp::internal
