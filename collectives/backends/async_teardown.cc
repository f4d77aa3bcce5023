// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/async_teardown.h"

#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

class Teardowns {
 public:
  ~Teardowns() {
    finish();
    for (const auto& last : last_) last();
  }
  void add(std::thread thread) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::move(thread));
  }
  void finish() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }
  void at_end(std::function<void()> last) {
    const std::lock_guard lock(mutex_);
    last_.push_back(std::move(last));
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::vector<std::function<void()>> last_;
};

Teardowns& teardowns() {
  static Teardowns teardowns;
  return teardowns;
}

}  // namespace

void teardown_async(std::function<void()> leave) {
  // The object is constructed before the exit handler is registered, so it outlives the handler.
  // And what the program constructed before its first teardown outlives the calls under way in it.
  Teardowns& all = teardowns();
  static const int registered = std::atexit(&finish_teardowns);
  static_cast<void>(registered);
  all.add(signal_masked_thread(std::move(leave)));
}

void finish_teardowns() {
  teardowns().finish();
}

void after_teardowns(std::function<void()> last) {
  teardowns().at_end(std::move(last));
}

}  // namespace ddp::internal
