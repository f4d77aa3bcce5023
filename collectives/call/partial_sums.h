// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call/call.h"
#include "collectives/call/reduction.h"

namespace ddp::internal {

/// A reduction that several ranks do in parts, one after the other. They pass on sums, which are
/// rounded once, at the end. Until then floats of 8 and 16 bits are float32, and an average is a
/// sum.
struct PartialSums {
  PartialSums(DataType of, ReduceOp reduce)
      : whole(reduction(of, reduce)),
        type(whole.sum_width == size_of(of) ? of : DataType::float32),
        op(reduce == ReduceOp::avg ? ReduceOp::sum : reduce),
        between(reduction(type, op)),
        is_wider(type != of) {}

  /// Returns the elements as sums: themselves, or a copy in `room`.
  const char* load(const char* elements, std::size_t count, std::vector<char>& room) const {
    if (!is_wider) return elements;
    room.resize(count * whole.sum_width);
    whole.load(room.data(), elements, count);
    return room.data();
  }

  Reduction whole;    ///< from elements to elements
  DataType type;      ///< of a sum
  ReduceOp op;        ///< between sums
  Reduction between;  ///< from sums to sums
  bool is_wider;      ///< than the elements
};

}  // namespace ddp::internal
