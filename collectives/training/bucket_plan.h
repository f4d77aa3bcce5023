// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/types.h"

namespace ddp::internal {

/// Gradients that are averaged in one call, in the order in which they are stored.
struct PlannedBucket {
  DataType type = DataType::float32;
  std::size_t count = 0;  ///< elements of all parameters
  std::vector<std::size_t> parameters = {};
};

/// Puts gradients into buckets as PyTorch's compute_bucket_assignment_by_size does (reducer.cpp),
/// from the last to the first. Each goes into the open bucket of its type. The first bucket of a
/// type is closed when it has `first_bytes`, others when they have `bytes`. Buckets are in the
/// order in which they are complete if gradients come from the last to the first. Pure.
std::vector<PlannedBucket> plan_buckets(std::span<const Buffer> gradients, std::size_t first_bytes,
                                        std::size_t bytes);

}  // namespace ddp::internal
