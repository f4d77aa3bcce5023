// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace ddp::internal {

/// A mutex for some instructions at a time, that hardly ever two threads want at once: taking it
/// and giving it back is one atomic operation, a std::mutex takes two. Who has to wait sleeps, as
/// the thread that has it may have a lower priority.
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
