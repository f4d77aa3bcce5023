// SPDX-License-Identifier: Apache-2.0
#include "collectives/background.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

class Background {
 public:
  ~Background() {
    finish();
    for (const auto& last : last_) last();
  }

  /// A thread keeps its stack until it is joined: those that have ended are, first.
  void run(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    std::erase_if(threads_, [](Thread& one) {
      const bool is_over = *one.is_over;
      if (is_over) one.thread.join();
      return is_over;
    });
    auto is_over = std::make_shared<std::atomic<bool>>(false);
    threads_.push_back({signal_masked_thread([work = std::move(work), is_over]() mutable {
                          work();
                          work = nullptr;  // what it owns ends here, too
                          *is_over = true;
                        }),
                        is_over});
  }

  /// Also what is begun by the work that it waits for. Some work may call it, as exit() does.
  void finish() {
    while (true) {
      std::vector<Thread> threads;
      {
        const std::lock_guard lock(mutex_);
        threads.swap(threads_);
      }
      if (threads.empty()) return;
      for (Thread& one : threads) {
        if (one.thread.get_id() == std::this_thread::get_id()) {
          one.thread.detach();
        } else {
          one.thread.join();
        }
      }
    }
  }

  void at_end(std::function<void()> last) {
    const std::lock_guard lock(mutex_);
    last_.push_back(std::move(last));
  }

 private:
  struct Thread {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> is_over;
  };

  std::mutex mutex_;
  std::vector<Thread> threads_;
  std::vector<std::function<void()>> last_;
};

Background& background() {
  static Background background;
  return background;
}

}  // namespace

void run_in_background(std::function<void()> work) {
  // The object is constructed before the exit handler is registered, so it outlives the handler.
  // And what the program constructed before its first work outlives the calls under way in it.
  Background& all = background();
  static const int registered = std::atexit(&finish_background);
  static_cast<void>(registered);
  all.run(std::move(work));
}

void finish_background() {
  background().finish();
}

void after_background(std::function<void()> last) {
  background().at_end(std::move(last));
}

}  // namespace ddp::internal
