// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <nccl.h>
#include <string>

namespace ddp::internal {

// Names of cuda.h are macros for those of today's version of a function, here as everywhere.
#define DDP_CUDA_FUNCTIONS(X)    \
  X(cuCtxGetCurrent)             \
  X(cuCtxGetDevice)              \
  X(cuCtxGetStreamPriorityRange) \
  X(cuCtxPopCurrent)             \
  X(cuCtxPushCurrent)            \
  X(cuDeviceGet)                 \
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
  X(cuLaunchKernel)              \
  X(cuMemAllocAsync)             \
  X(cuMemFreeAsync)              \
  X(cuMemFreeHost)               \
  X(cuMemHostAlloc)              \
  X(cuMemcpyAsync)               \
  X(cuModuleGetFunction)         \
  X(cuModuleLoadData)            \
  X(cuModuleUnload)              \
  X(cuStreamCreateWithPriority)  \
  X(cuStreamDestroy)             \
  X(cuStreamIsCapturing)         \
  X(cuStreamWaitEvent)           \
  X(cuThreadExchangeStreamCaptureMode)

#define DDP_NCCL_FUNCTIONS(X) \
  X(ncclAllGather)            \
  X(ncclAllReduce)            \
  X(ncclBroadcast)            \
  X(ncclCommAbort)            \
  X(ncclCommDestroy)          \
  X(ncclCommFinalize)         \
  X(ncclCommGetAsyncError)    \
  X(ncclCommInitRankConfig)   \
  X(ncclGetErrorString)       \
  X(ncclGetLastError)         \
  X(ncclGetUniqueId)          \
  X(ncclGetVersion)           \
  X(ncclGroupEnd)             \
  X(ncclGroupStart)           \
  X(ncclRecv)                 \
  X(ncclReduce)               \
  X(ncclReduceScatter)        \
  X(ncclSend)

#define DDP_FUNCTION_POINTER(name) decltype(&::name) name = nullptr;  // NOLINT

/// CUDA's driver, libcuda.so.1, and NCCL, libnccl.so.2, as far as they are used here. They are
/// loaded when they are first asked for, and stay: a program that never touches a GPU starts and
/// runs without either. The driver's handles of streams and events are the CUDA runtime's, too.
struct Cuda {
  DDP_CUDA_FUNCTIONS(DDP_FUNCTION_POINTER)
};
struct Nccl {
  DDP_NCCL_FUNCTIONS(DDP_FUNCTION_POINTER)
};
#undef DDP_FUNCTION_POINTER

/// Throw ddp::Error of kind usage that says which library, or which function of it, is missing and
/// where it comes from. Thread: any.
const Cuda& cuda();
const Nccl& nccl();

/// How many GPUs this process sees; above 0. Throws ddp::Error of kind usage where there is none.
int count_gpus();

/// What NCCL calls the failure, and what else it tells of the last one.
std::string what_nccl_says(ncclResult_t result);

/// Throws ddp::Error of kind system: "WHAT: what CUDA says".
void check_cuda(CUresult result, const char* what);

}  // namespace ddp::internal
