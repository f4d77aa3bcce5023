// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "ddp/types.h"

namespace ddp::internal {

/// out[i] = a[i] (op) b[i] for `count` elements; out may be a or b. The mean adds: see divide.
using Reduction = void (*)(void* out, const void* a, const void* b, std::size_t count);
Reduction reduction(DataType type, ReduceOp op);

/// Divides every element: what turns a sum into a mean.
void divide(Buffer buffer, int by);

}  // namespace ddp::internal
