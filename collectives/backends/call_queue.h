// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
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

/// Makes asynchronous calls of blocking ones. Does calls one at a time, in the order in which they
/// come. Calls of begin() run in a thread of the queue, which the first of them starts (in the
/// caller's thread if none can be started), or in a thread that waits for them without a time limit
/// before the queue's thread has woken up. Calls of run() run in the caller's thread if no other
/// call is before them. So short calls do not pay for a switch between threads.
///
/// After the first failure every later call fails with the same error, also calls begun before it.
///
/// Thread: any, several at once.
class CallQueue {
 public:
  /// `work` does one task, in any thread, and throws ddp::Error.
  explicit CallQueue(std::function<void(const Task& task)> work);
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  /// Waits for the calls that were begun.
  ~CallQueue() { finish(); }

  /// The same before the end: no more calls come.
  void finish();

  void run(const Task& task);

  /// Does the task in the caller's thread if no other call is before it and `is_ready()`, which is
  /// asked in the task's turn; else returns false.
  template <class IsReady>
  bool run_if(const IsReady& is_ready, const Task& task) {
    unsigned free = 0;
    if (!state_.compare_exchange_strong(free, kBusy)) return false;
    if (failure_ || !is_ready()) return finish(std::nullopt), false;
    if (const auto error = finish(attempt(task))) throw Error(*error);
    return true;
  }

  std::shared_ptr<AsyncCall> begin(const Task& task);

 private:
  /// Bits of state_. kBusy: a thread is in work_. kQueued: calls wait that were begun, or the queue
  /// ends. If neither is set, run() takes no lock.
  static constexpr unsigned kBusy = 1;
  static constexpr unsigned kQueued = 2;

  class Begun;
  struct Call {
    Task task;
    std::shared_ptr<Completion> completion;
  };

  bool has_thread();
  void run_queued();
  std::optional<Call> take_if_free();
  Call take_first();
  void take_turn();
  void do_call(const Call& call);
  std::optional<Error> attempt(const Task& task);
  std::optional<Error> finish(std::optional<Error> error);

  const std::function<void(const Task& task)> work_;
  std::atomic<unsigned> state_ = 0;
  std::mutex mutex_;  // protects what follows; the busy thread, too, reads failure_
  std::condition_variable changed_;
  std::deque<Call> calls_;
  int in_place_ = 0;  // threads in begin() that wait to do their call themselves
  std::optional<Error> failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
