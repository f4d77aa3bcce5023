// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <optional>

namespace ddp::internal {

/// Which GPU memory and streams belong to, as CUDA knows. Neither blocks, nor disturbs a capture.
/// Thread: any.

/// An address as CUDA knows it.
struct MemoryPlace {
  bool is_known = true;       ///< false: it has not allocated or registered it
  std::optional<int> device;  ///< whose memory it is; none: of the host, or of all (managed)
};
MemoryPlace place_of(const void* memory);

/// None if it is a default stream, which belongs to the current device.
std::optional<int> device_of(CUstream stream);

/// Whether the GPU's kernels reach all memory of the process, also what CUDA does not know.
bool reaches_unknown_memory(int device);

}  // namespace ddp::internal
