// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collectives/call/call.h"

namespace ddp::internal {

/// Sent by one rank to another before data moves between the two.
struct Announced {
  Call call;
  std::uint64_t sends = 0;    ///< elements that it sends the other in total
  std::uint64_t expects = 0;  ///< elements that it expects from the other
};

/// Returns what does not fit between this rank and another, which is named `other`: "is at #12
/// barrier, but rank 1 is at #12 all_reduce sum float32[100]"; nullopt if all fits. Pure.
std::optional<std::string> difference(const Announced& ours, const Announced& theirs,
                                      const std::string& other);

}  // namespace ddp::internal
