// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

struct CUstream_st;  // CUDA's CUstream points to it

namespace ddprun::bench {

/// The memory of a benchmark's gradients.
struct Memory {
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
  std::function<void()> settle;  ///< waits until all calls with such memory are done
  bool on_device = false;
  CUstream_st* stream = nullptr;  ///< stream of all calls on a device
};

/// Memory of this process's GPU, not initialized. Makes that GPU the calling thread's. Throws
/// ddp::Error if this was built without CUDA's headers; ends the program if CUDA refuses.
Memory make_device_memory();

}  // namespace ddprun::bench
