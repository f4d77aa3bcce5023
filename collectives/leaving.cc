// SPDX-License-Identifier: Apache-2.0
#include "collectives/leaving.h"

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/quiet_thread.h"

namespace ddp::internal {
namespace {

class Leavers {
 public:
  ~Leavers() {
    for (std::thread& thread : threads_) thread.join();
  }
  void add(std::thread thread) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::move(thread));
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace

void leave_aside(std::unique_ptr<Backend> backend, std::shared_ptr<GroupCalls> calls) {
  static Leavers leavers;
  leavers.add(quiet_thread([kept = std::move(backend), calls = std::move(calls)]() mutable {
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

}  // namespace ddp::internal
