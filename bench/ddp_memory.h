// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

struct CUstream_st;  // what CUDA's CUstream points to

namespace ddprun::bench {

/// Where the gradients of a benchmark are.
struct Memory {
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
  std::function<void()> settle;  ///< waits until all calls with such memory are done
  bool on_device = false;
  CUstream_st* stream = nullptr;  ///< of all calls, on a device
};

/// Of this process's GPU, which becomes the calling thread's. Not initialized. Throws ddp::Error
/// where this was built without CUDA's headers; ends the program where CUDA refuses.
Memory make_device_memory();

}  // namespace ddprun::bench
