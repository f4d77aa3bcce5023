// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "collectives/backends/cuda/shared_library.h"

namespace ddp::internal {

#define DDP_CUDA_FUNCTIONS(X)    \
  X(cuCtxGetCurrent)             \
  X(cuCtxGetDevice)              \
  X(cuCtxGetStreamPriorityRange) \
  X(cuCtxPopCurrent)             \
  X(cuCtxPushCurrent)            \
  X(cuCtxSynchronize)            \
  X(cuDeviceGet)                 \
  X(cuDeviceGetAttribute)        \
  X(cuDeviceGetCount)            \
  X(cuDevicePrimaryCtxRelease)   \
  X(cuDevicePrimaryCtxRetain)    \
  X(cuEventCreate)               \
  X(cuEventDestroy)              \
  X(cuEventQuery)                \
  X(cuEventRecord)               \
  X(cuEventSynchronize)          \
  X(cuGetErrorString)            \
  X(cuInit)                      \
  X(cuMemAllocAsync)             \
  X(cuMemFreeAsync)              \
  X(cuMemFreeHost)               \
  X(cuMemHostAlloc)              \
  X(cuMemcpyAsync)               \
  X(cuMemsetD8Async)             \
  X(cuPointerGetAttributes)      \
  X(cuStreamCreateWithPriority)  \
  X(cuStreamDestroy)             \
  X(cuStreamGetCtx)              \
  X(cuStreamIsCapturing)         \
  X(cuStreamWaitEvent)           \
  X(cuThreadExchangeStreamCaptureMode)

/// The functions of CUDA's driver, libcuda.so.1, that are used here. It is loaded when first asked
/// for and stays loaded: a program that never touches a GPU starts and runs without it. The
/// driver's handles of streams and events are also those of the CUDA runtime.
struct Cuda {
  DDP_CUDA_FUNCTIONS(DDP_FUNCTION_POINTER)

  // Null before CUDA 12; headers before it do not declare it.
  CUresult (*cuStreamGetId)(CUstream stream, unsigned long long* id) = nullptr;
};

/// The loaded driver. Throws ddp::Error of kind usage that says what is missing (the library, one
/// of its functions, a GPU) and where to get it. Thread: any.
const Cuda& cuda();

/// Whether the driver is there, and CUDA_VISIBLE_DEVICES does not hide every GPU. Unlike the
/// functions below it does not initialize the driver: children that are forked later could not use
/// it then.
bool may_see_gpus() noexcept;

/// The number of GPUs that this process sees, above 0. Throws ddp::Error of kind usage if there is
/// none.
int count_gpus();

/// Throws ddp::Error of kind system if `result` is an error: "FUNCTION: CUDA's description".
void check_cuda(CUresult result, const char* function);

}  // namespace ddp::internal
