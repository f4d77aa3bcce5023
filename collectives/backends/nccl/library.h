// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nccl.h>
#include <string>

#include "collectives/backends/cuda/shared_library.h"

namespace ddp::internal {

#define DDP_NCCL_FUNCTIONS(X) \
  X(ncclAllGather)            \
  X(ncclAllReduce)            \
  X(ncclBroadcast)            \
  X(ncclCommAbort)            \
  X(ncclCommDeregister)       \
  X(ncclCommDestroy)          \
  X(ncclCommFinalize)         \
  X(ncclCommGetAsyncError)    \
  X(ncclCommInitRankConfig)   \
  X(ncclCommInitRankScalable) \
  X(ncclCommRegister)         \
  X(ncclCommSplit)            \
  X(ncclGetErrorString)       \
  X(ncclGetLastError)         \
  X(ncclGetUniqueId)          \
  X(ncclGetVersion)           \
  X(ncclGroupEnd)             \
  X(ncclGroupStart)           \
  X(ncclMemAlloc)             \
  X(ncclMemFree)              \
  X(ncclRecv)                 \
  X(ncclRedOpCreatePreMulSum) \
  X(ncclRedOpDestroy)         \
  X(ncclReduce)               \
  X(ncclReduceScatter)        \
  X(ncclSend)

/// The functions of NCCL, libnccl.so.2, that are used here; loaded like CUDA's driver.
struct Nccl {
  DDP_NCCL_FUNCTIONS(DDP_FUNCTION_POINTER)

  // Null before 2.27; headers before it do not declare them. A window is a ncclWindow_t.
  ncclResult_t (*ncclCommShrink)(ncclComm_t whole, int* excluded, int count, ncclComm_t* part,
                                 ncclConfig_t* config, int flags) = nullptr;
  ncclResult_t (*ncclCommWindowRegister)(ncclComm_t group, void* memory, std::size_t bytes,
                                         void** window, int flags) = nullptr;
  ncclResult_t (*ncclCommWindowDeregister)(ncclComm_t group, void* window) = nullptr;
};

/// The loaded library. Throws ddp::Error of kind usage that says what is missing (the library or
/// one of its functions) and where to get it. Thread: any.
const Nccl& nccl();

/// Throws ddp::Error of kind usage if the library is older than 2.23.
void check_nccl();

/// The result of ncclGetVersion().
int nccl_version();

/// NCCL's text for the result, followed by NCCL's details of its last error.
std::string describe(ncclResult_t result);

}  // namespace ddp::internal
