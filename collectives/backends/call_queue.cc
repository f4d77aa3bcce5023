// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/call_queue.h"

#include <utility>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {

/// A call that waits in the queue.
class CallQueue::Begun : public Completion {
 public:
  explicit Begun(CallQueue& queue) : queue_(queue) {}

  /// Does the calls up to this one while no other thread does.
  void wait() override {
    while (const auto call = first_call()) queue_.do_call(*call);
    Completion::wait();
  }

 private:
  /// The queue does not end before this call does.
  std::optional<Call> first_call() {
    const auto open = keep_open();
    return open ? queue_.take_if_free() : std::nullopt;
  }

  CallQueue& queue_;
};

CallQueue::CallQueue(std::function<void(const Task& task)> work) : work_(std::move(work)) {}

void CallQueue::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    state_ |= kQueued;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void CallQueue::run(const Task& task) {
  unsigned free = 0;
  if (!state_.compare_exchange_strong(free, kBusy)) return begin(task)->wait();
  if (const auto error = finish(attempt(task))) throw Error(*error);
}

std::shared_ptr<AsyncCall> CallQueue::begin(const Task& task) {
  auto completion = std::make_shared<Begun>(*this);
  std::unique_lock lock(mutex_);
  if (const auto failure = failure_) {
    lock.unlock();
    return failed_call(*failure);
  }
  if (!has_thread()) {
    ++in_place_;
    state_ |= kQueued;
    changed_.wait(lock, [&] { return (state_ & kBusy) == 0; });
    --in_place_;
    take_turn();
    lock.unlock();
    do_call({task, completion});
    return completion;
  }
  calls_.push_back({task, completion});
  state_ |= kQueued;
  changed_.notify_all();
  return completion;
}

/// Starts the thread unless it runs; mutex_ is locked. Returns false if none can be started; the
/// other ranks wait for the call all the same.
bool CallQueue::has_thread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = signal_masked_thread([this] { run_queued(); });
  } catch (const Error&) {
    return false;
  }
  return true;
}

void CallQueue::run_queued() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return (state_ & kBusy) == 0 && (stopping_ || !calls_.empty()); });
    if (calls_.empty()) return;
    const Call call = take_first();
    lock.unlock();
    do_call(call);
    lock.lock();
  }
}

/// Returns the first call that waits, if no thread is in work_.
std::optional<CallQueue::Call> CallQueue::take_if_free() {
  const std::lock_guard lock(mutex_);
  if ((state_ & kBusy) != 0 || calls_.empty()) return std::nullopt;
  return take_first();
}

/// Takes the turn of the first call; mutex_ is locked.
CallQueue::Call CallQueue::take_first() {
  Call call = std::move(calls_.front());
  calls_.pop_front();
  take_turn();
  return call;
}

/// Takes the turn; mutex_ is locked, kQueued set, and no thread is in work_.
void CallQueue::take_turn() {
  const bool is_last = calls_.empty() && in_place_ == 0 && !stopping_;
  state_ = is_last ? kBusy : kBusy | kQueued;
}

/// Called by the thread that has set kBusy. The thread with the next turn finds this call
/// completed. A thread that waits for the call is woken when the turn is free.
void CallQueue::do_call(const Call& call) {
  call.completion->start();
  const auto error = attempt(call.task);
  call.completion->end(error);
  finish(error);
  call.completion->wake();
}

/// Returns the error of `work_`, or the one that made the queue fail before.
std::optional<Error> CallQueue::attempt(const Task& task) {
  if (failure_) return failure_;  // no lock: only a thread that was busy writes it
  try {
    work_(task);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::optional<Error> CallQueue::finish(std::optional<Error> error) {
  unsigned busy = kBusy;
  if (!error && state_.compare_exchange_strong(busy, 0)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (error && !failure_) failure_ = error;
  state_ &= ~kBusy;  // from now on others read failure_ without a lock
  changed_.notify_all();
  return error;
}

}  // namespace ddp::internal
