// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/async_teardown.h"

#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

class Leavers {
 public:
  ~Leavers() {
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

Leavers& leavers() {
  static Leavers leavers;
  return leavers;
}

}  // namespace

void leave_async(std::unique_ptr<Backend> backend, std::shared_ptr<GroupCalls> calls) {
  // What the program has made before it first leaves a group outlasts the calls under way in it.
  Leavers& all = leavers();  // before: what exit() calls last has to be there still
  static const int registered = std::atexit(&finish_leaving);
  static_cast<void>(registered);
  all.add(signal_masked_thread([kept = std::move(backend), calls = std::move(calls)]() mutable {
    try {
      const auto call = calls->begin({.operation = Operation::leave});
      kept->leave();
      calls->succeed(call);
    } catch (const Error&) {
      kept->abort();  // the group has failed: there is nobody to wait for
    }
    calls->end_watch();
    kept.reset();
  }));
}

void finish_leaving() {
  leavers().finish();
}

void after_leaving(std::function<void()> last) {
  leavers().at_end(std::move(last));
}

}  // namespace ddp::internal
