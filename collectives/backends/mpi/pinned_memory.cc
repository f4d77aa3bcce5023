// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/pinned_memory.h"

#include <utility>

#include "collectives/backends/cuda/driver.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kMostKept = std::size_t{64} << 20U;
constexpr std::size_t kUnit = std::size_t{64} << 10U;  // so that similar sizes share memory

}  // namespace

PinnedMemory::PinnedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) check_cuda(cuda().cuMemHostAlloc(&data_, bytes, 0), "cuMemHostAlloc");
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cuda().cuMemFreeHost(data_);
}

std::unique_ptr<PinnedMemory> PinnedPool::take(std::size_t bytes) {
  const std::size_t whole = (bytes + kUnit - 1) / kUnit * kUnit;
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.lower_bound(whole);
    if (found != kept_.end() && found->first <= 4 * whole) {  // a small copy keeps no large memory
      kept_bytes_ -= found->first;
      auto memory = std::move(found->second);
      kept_.erase(found);
      return memory;
    }
  }
  return std::make_unique<PinnedMemory>(whole);
}

void PinnedPool::give(std::unique_ptr<PinnedMemory> memory) {
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = memory->size();
  if (kept_bytes_ + bytes > kMostKept) return;
  kept_bytes_ += bytes;
  kept_.emplace(bytes, std::move(memory));
}

}  // namespace ddp::internal
