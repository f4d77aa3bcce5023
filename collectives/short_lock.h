// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace ddp::internal {

/// A mutex for some instructions at a time, which two threads hardly ever want at once. Locking and
/// unlocking takes one atomic operation; a std::mutex takes two. A thread that has to wait sleeps,
/// as the owner may have a lower priority.
class ShortLock {
 public:
  void lock() {
    while (is_taken_.exchange(true, std::memory_order_acquire)) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  void unlock() { is_taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_taken_ = false;
};

}  // namespace ddp::internal
