// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/bucket_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/call/call.h"

namespace ddp::internal {

std::vector<PlannedBucket> plan_buckets(std::span<const Buffer> gradients, std::size_t first_bytes,
                                        std::size_t bytes) {
  struct Open {
    PlannedBucket bucket;
    std::size_t limit;
  };
  std::map<DataType, Open> open;
  std::vector<PlannedBucket> closed;
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const DataType type = gradients[i].type;
    auto& [bucket, limit] = open.try_emplace(type, Open{{.type = type}, first_bytes}).first->second;
    bucket.count += gradients[i].count;
    bucket.parameters.push_back(i);
    if (bucket.count * size_of(type) < limit) continue;
    closed.push_back(std::exchange(bucket, {.type = type}));
    limit = bytes;
  }
  const auto whole = static_cast<std::ptrdiff_t>(closed.size());
  for (auto& [type, last] : open) {
    if (!last.bucket.parameters.empty()) closed.push_back(std::move(last.bucket));
  }
  std::sort(closed.begin() + whole, closed.end(),
            [](const auto& a, const auto& b) { return a.parameters.back() > b.parameters.back(); });
  return closed;
}

}  // namespace ddp::internal
