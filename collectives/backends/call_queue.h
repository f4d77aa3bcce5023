// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "collectives/backends/backend.h"
#include "collectives/call/async_call.h"

namespace ddp::internal {

/// Turns calls that block into calls that are begun, for libraries that only have the former. Calls
/// are done one at a time, in the order in which they come: those that are begun in a thread of the
/// queue's own, which is started by the first of them; others in the caller's thread, if it need
/// not wait for any before, so that short calls pay for no other thread.
///
/// After the first failure every later call, begun already or not, fails with that same error.
///
/// Thread: any, several at once.
class CallQueue {
 public:
  /// `work` does one task, in any thread, and throws ddp::Error.
  explicit CallQueue(std::function<void(const Task& task)> work);
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Waits for the calls that were begun.
  ~CallQueue();

  void run(const Task& task);
  std::shared_ptr<AsyncCall> begin(const Task& task);

 private:
  struct Call {
    Task task;
    std::shared_ptr<Completion> completion;
  };

  void work_off();
  std::optional<Error> attempt(const Task& task);
  std::optional<Error> end_turn(std::optional<Error> error);

  const std::function<void(const Task& task)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  std::optional<Error> failure_;
  bool busy_ = false;  // somebody is in work_
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
