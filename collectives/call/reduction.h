// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "ddp/types.h"

namespace ddp::internal {

/// The steps of a reduction: load the first rank's elements, add those of each other rank, store
/// the result. Sums have the element type, except float32 for floating-point types of 8 and 16
/// bits. The min and max of numbers and NaN are NaN. Arrays must not overlap.
///
/// `combine` does all steps at once, with the widest instructions of the processor. Both ways give
/// the same bits, except for the kind of NaN. `out` may be one of the parts, which are in the order
/// of ranks.
struct Reduction {
  std::size_t sum_width;  ///< bytes of a sum
  void (*load)(void* sums, const void* elements, std::size_t count);
  void (*add)(void* sums, const void* elements, std::size_t count);
  void (*store)(void* elements, const void* sums, std::size_t count, int ranks);
  void (*combine)(void* out, const void* const* parts, int ranks, std::size_t count);
};

/// Requires allows(type, op).
Reduction reduction(DataType type, ReduceOp op);

/// Whether the operation is defined for the type.
bool allows(DataType type, ReduceOp op);

/// Names the types that have the operation: "integers and bool".
const char* types_with(ReduceOp op);

}  // namespace ddp::internal
