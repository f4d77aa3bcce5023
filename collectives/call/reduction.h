// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "ddp/types.h"

namespace ddp::internal {

/// How elements of several ranks become one: loads the first rank's, adds each other's, and stores.
/// Between, sums are of the element type, but of float32 for float16 and bfloat16. No two of the
/// arrays may overlap.
struct Reduction {
  std::size_t sum_width;  ///< bytes
  void (*load)(void* sums, const void* elements, std::size_t count);
  void (*add)(void* sums, const void* elements, std::size_t count);
  void (*store)(void* elements, const void* sums, std::size_t count, int ranks);
};

/// Only where allows(type, op).
Reduction reduction(DataType type, ReduceOp op);

/// Whether the type has the operation.
bool allows(DataType type, ReduceOp op);

bool is_integer(DataType type);

}  // namespace ddp::internal
