// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cuda.h>
#include <string>

#include "collectives/backends/cuda/device.h"
#include "ddp/types.h"

namespace ddp::internal {

/// The reductions that NCCL has not: band, bor and bxor, of integers of any width, for it is all
/// the same to bits. The driver compiles the kernels for the GPU when the first is asked for.
///
/// Thread: one at a time, the device being current.
class BitwiseKernels {
 public:
  /// For `device`, which outlives it.
  explicit BitwiseKernels(const CudaDevice& device) : device_(device) {}
  BitwiseKernels(const BitwiseKernels&) = delete;
  BitwiseKernels& operator=(const BitwiseKernels&) = delete;
  ~BitwiseKernels();

  /// Replaces `into` by what `op` makes of it and `from`, in the stream's turn.
  void combine(ReduceOp op, char* into, const char* from, std::size_t bytes, CUstream stream);

 private:
  void launch(const std::string& kernel, char* into, const char* from, std::size_t count,
              CUstream stream);

  const CudaDevice& device_;
  CUmodule module_ = nullptr;
};

/// The kernels in PTX, the assembly language of all of NVIDIA's GPUs.
std::string bitwise_kernels();

}  // namespace ddp::internal
