// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <optional>

namespace ddp::internal {

/// Finds the GPU that memory and streams belong to, as CUDA knows it. Neither function blocks or
/// disturbs a capture. Thread: any.

/// An address as CUDA knows it.
struct MemoryPlace {
  bool is_known = true;       ///< false: CUDA has not allocated or registered it
  std::optional<int> device;  ///< whose memory it is; none: the host's, or of all (managed)
};
MemoryPlace place_of(const void* memory);

/// Returns none for a default stream, which belongs to the current device.
std::optional<int> device_of(CUstream stream);

/// Whether the GPU's kernels reach all memory of the process, also memory unknown to CUDA.
bool reaches_unknown_memory(int device);

}  // namespace ddp::internal
