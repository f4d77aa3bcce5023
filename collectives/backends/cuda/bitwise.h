// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cuda.h>
#include <map>
#include <memory>
#include <string>

#include "collectives/backends/cuda/device.h"
#include "ddp/types.h"

namespace ddp::internal {

/// Kernels for the reductions that NCCL does not have: band, bor and bxor. The same kernels serve
/// integers of every width. The driver compiles them for the GPU.
///
/// Thread: any; combine() with the device as the current one.
class BitwiseKernels {
 public:
  /// The device's kernels, loaded unless a group of this process has them. Loading may wait for all
  /// that runs on the device, so do it while no call there waits for another rank.
  static std::shared_ptr<const BitwiseKernels> of(int device);

  explicit BitwiseKernels(int device);
  BitwiseKernels(const BitwiseKernels&) = delete;
  BitwiseKernels& operator=(const BitwiseKernels&) = delete;
  ~BitwiseKernels();

  /// into = into OP from, in the stream.
  void combine(ReduceOp op, char* into, const char* from, std::size_t bytes, CUstream stream) const;

 private:
  CudaDevice device_;
  CUmodule module_ = nullptr;
  std::map<std::string, CUfunction> kernels_;
};

/// The kernels in PTX, the assembly language for all of NVIDIA's GPUs.
std::string bitwise_kernels();

}  // namespace ddp::internal
