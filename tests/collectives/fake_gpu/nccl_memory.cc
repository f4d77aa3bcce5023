// SPDX-License-Identifier: Apache-2.0
// NCCL's allocations, and the memory that its communicators know.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/collectives/fake_gpu/nccl.h"

using fake_gpu::Communicator;
using fake_gpu::die;
using fake_gpu::do_with_others;
using fake_gpu::refuse;
using fake_gpu::tells;

namespace {

/// Memory that a communicator of the process knows.
struct Registered {
  ncclComm_t by;
  void* memory;
  std::size_t window_bytes;  // 0: no window
};
std::mutex registered_mutex;
std::vector<std::unique_ptr<Registered>> registered;

Registered* add_registered(ncclComm_t by, void* memory, std::size_t window_bytes) {
  const std::lock_guard lock(registered_mutex);
  return registered.emplace_back(new Registered{by, memory, window_bytes}).get();
}

void remove_registered(const void* entry) {
  const std::lock_guard lock(registered_mutex);
  if (std::erase_if(registered, [&](const auto& each) { return each.get() == entry; }) == 0) {
    die("deregistered what is not registered");
  }
}

/// Every rank registers a window of this size; else the real NCCL may hang.
void register_window(ncclComm_t handle, void* memory, std::size_t bytes, ncclWindow_t* window) {
  Communicator& self = *handle->self;
  const auto ranks = self.find_part(static_cast<int>(bytes), self.rank);
  if (std::ssize(ranks) != self.size) {
    fake_gpu::tell("windows of different sizes");
    self.state = ncclInvalidArgument;
    return;
  }
  *window = reinterpret_cast<ncclWindow_t>(add_registered(handle, memory, bytes));
  self.state = ncclSuccess;
}

}  // namespace

namespace fake_gpu {

void forget_registered(ncclComm_t by) {
  const std::lock_guard lock(registered_mutex);
  std::erase_if(registered, [&](const auto& each) { return each->by == by; });
}

bool is_in_window(const void* memory) {
  const std::lock_guard lock(registered_mutex);
  const auto* const place = static_cast<const char*>(memory);
  return std::ranges::any_of(registered, [&](const auto& each) {
    const auto* const begin = static_cast<const char*>(each->memory);
    return place >= begin && place < begin + each->window_bytes;
  });
}

}  // namespace fake_gpu

extern "C" {

/// Allocates on the current device, like the real function.
ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  CUdeviceptr address = 0;
  if (std::getenv("FAKE_NCCL_FULL") != nullptr) return ncclUnhandledCudaError;
  if (cuMemAlloc(&address, bytes) != CUDA_SUCCESS) return ncclUnhandledCudaError;
  *memory = reinterpret_cast<void*>(address);
  std::memset(*memory, 0x5a, bytes);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  {
    const std::lock_guard lock(registered_mutex);
    for (const auto& each : registered) {
      if (each->memory == memory) die("memory is freed that is registered");
    }
  }
  cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t handle, void* memory, std::size_t bytes, void** entry) {
  Communicator& self = *handle->self;
  if (self.state != ncclSuccess || self.questions > 0) return refuse("used before it was settled");
  if (tells()) std::printf("registered %zu\n", bytes);
  *entry = add_registered(handle, memory, 0);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t /*handle*/, void* entry) {
  remove_registered(entry);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int flags) {
  Communicator& self = *handle->self;
  if (self.state != ncclSuccess || self.questions > 0) return refuse("used before it was settled");
  if (tells()) std::printf("window %zu, %d\n", bytes, flags);
  return do_with_others(
      self, [handle, memory, bytes, window] { register_window(handle, memory, bytes, window); });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t /*handle*/, ncclWindow_t window) {
  remove_registered(window);
  return ncclSuccess;
}

}  // extern "C"
