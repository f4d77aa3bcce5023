// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace ddp::internal {

/// std::atomic_thread_fence(); left out under the thread sanitizer, which does not support it.
inline void fence(std::memory_order order) noexcept {
#ifdef __SANITIZE_THREAD__
  static_cast<void>(order);
#else
  std::atomic_thread_fence(order);
#endif
}

}  // namespace ddp::internal
