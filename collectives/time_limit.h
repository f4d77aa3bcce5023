// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace ddp::internal {

/// Practically no limit. A longer one would overflow a deadline.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

inline std::chrono::milliseconds bounded(std::chrono::milliseconds limit) {
  return std::min(limit, kForever);
}

}  // namespace ddp::internal
