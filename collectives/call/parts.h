// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/call/task.h"

namespace ddp::internal {

/// The parts of an element, for code that does not have its type: a complex number has two real
/// ones, a struct its bytes, any other is one. Sums, averages and copies of elements are
/// those of their parts. Pure.
struct Parts {
  DataType type;
  std::size_t count;  ///< in each element
};

/// `width` is that of a struct.
Parts parts_of(DataType type, std::size_t width = 0);

/// The same task, and the same memory, with parts as elements.
Task in_parts(Task task, const Parts& parts);
Buffer in_parts(Buffer buffer);

}  // namespace ddp::internal
