// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/call/task.h"

namespace ddp::internal {

/// The parts of an element, for code that does not have its type: a complex number has two real
/// parts, a struct its bytes, any other element is one part. Elements are summed, averaged and
/// copied by parts. Pure.
struct Parts {
  DataType type;
  std::size_t count;  ///< in each element
};

/// `width` is a struct's.
Parts parts_of(DataType type, std::size_t width = 0);

/// Returns the same task, with the same memory, with parts as elements.
Task in_parts(Task task, const Parts& parts);
Buffer in_parts(Buffer buffer);

}  // namespace ddp::internal
