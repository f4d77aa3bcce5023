// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "collectives/backends/shm/arena.h"

namespace ddp::internal {

std::shared_ptr<void> allocate_on_host(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t whole = std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
  if (whole > available_memory()) throw std::bad_alloc();  // filling it would end the process
  std::shared_ptr<void> memory(std::aligned_alloc(kAlignment, whole), std::free);
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, whole);
  return memory;
}

}  // namespace ddp::internal
