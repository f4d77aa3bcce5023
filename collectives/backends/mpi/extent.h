// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/call/task.h"

namespace ddp::internal {

/// The part of a task's memory that this rank reads or writes.
struct Extent {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;

  Extent(const void* memory, std::size_t size)
      : begin(reinterpret_cast<std::uintptr_t>(memory)), bytes(memory == nullptr ? 0 : size) {}
  std::uintptr_t end() const { return begin + bytes; }
  bool overlaps(const Extent& other) const {
    return bytes > 0 && other.bytes > 0 && begin < other.end() && other.begin < end();
  }
};

/// The part of task.in that rank `rank` of `size` reads in a collective task, and the part of
/// task.out that it writes.
Extent input_of(const Task& task, int rank, int size);
Extent output_of(const Task& task, int rank, int size);

}  // namespace ddp::internal
