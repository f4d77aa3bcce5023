// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cuda.h>
#include <string>

#include "collectives/backends/cuda/device.h"
#include "ddp/types.h"

namespace ddp::internal {

/// Kernels for the reductions that NCCL does not have: band, bor and bxor. The same kernels serve
/// integers of every width. The driver compiles them for the GPU at the first call.
///
/// Thread: one at a time, with the device as its current one.
class BitwiseKernels {
 public:
  /// `device` must outlive it.
  explicit BitwiseKernels(const CudaDevice& device) : device_(device) {}
  BitwiseKernels(const BitwiseKernels&) = delete;
  BitwiseKernels& operator=(const BitwiseKernels&) = delete;
  ~BitwiseKernels();

  /// into = into OP from, in the stream.
  void combine(ReduceOp op, char* into, const char* from, std::size_t bytes, CUstream stream);

 private:
  void launch(const std::string& kernel, char* into, const char* from, std::size_t count,
              CUstream stream);

  const CudaDevice& device_;
  CUmodule module_ = nullptr;
};

/// The kernels in PTX, the assembly language for all of NVIDIA's GPUs.
std::string bitwise_kernels();

}  // namespace ddp::internal
