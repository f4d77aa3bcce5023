// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ddp/error.h"

namespace ddp::internal {

/// A thread that waits for the first of several calls.
class EndSignal {
 public:
  void give();

  /// Waits until it has been given since the last wait, for at most `limit`.
  void wait(std::chrono::microseconds limit);

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  bool is_given_ = false;
};

/// The implementation of a Work. Thread: any, several at once.
class AsyncCall {
 public:
  AsyncCall() = default;
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;
  virtual ~AsyncCall() = default;

  /// Neither function blocks.
  virtual bool is_completed() = 0;
  virtual std::optional<Error> error() = 0;

  /// Work::wait(). Throws the call's error.
  virtual void wait() = 0;

  /// Waits until `deadline`; returns whether this rank's part has ended.
  virtual bool completes_until(std::chrono::steady_clock::time_point deadline) = 0;

  /// Has the end of the call give the signal, also if it has ended. Returns false if no thread
  /// notices the end unless it looks.
  virtual bool give_at_end(const std::shared_ptr<EndSignal>& /*signal*/) { return false; }

  /// Work::duration(); nothing if it is not known.
  virtual std::optional<std::chrono::nanoseconds> duration() { return std::nullopt; }
};

/// A call that one thread does while others wait for it.
class Completion : public AsyncCall {
 public:
  /// A thread begins the call: duration() counts from now. At most once.
  void start();

  /// End the call. Exactly one of them is called, once, by a caller that keeps this alive.
  void succeed();
  void fail(const Error& error);

  /// End the call in two steps. From end() on, threads that look see that it has ended, with this
  /// error. wake() wakes threads that wait.
  void end(std::optional<Error> error);
  void wake();

  /// The thread that should end the call ends the process instead. Threads that wait for it in
  /// background work, which the process waits for, get an error. Others wait until the process has
  /// ended.
  void abandon();

  bool is_completed() override;
  std::optional<Error> error() override;
  void wait() override;
  bool completes_until(std::chrono::steady_clock::time_point deadline) override;
  bool give_at_end(const std::shared_ptr<EndSignal>& signal) override;
  std::optional<std::chrono::nanoseconds> duration() override;

 protected:
  /// A lock without which the call does not end; nothing if it has ended.
  std::unique_lock<std::mutex> keep_open();

 private:
  void finish(std::optional<Error> error);
  void set_ended(std::optional<Error> error);
  void give_signals();
  bool is_over() const;

  std::mutex mutex_;
  std::condition_variable over_;
  std::atomic<bool> completed_ = false;  // set last: from then on the rest is read without a lock
  bool abandoned_ = false;
  std::optional<Error> error_;
  std::vector<std::weak_ptr<EndSignal>> signals_;  // of threads that wait for one of several calls
  std::optional<std::chrono::steady_clock::time_point> started_;
  std::optional<std::chrono::nanoseconds> duration_;
};

}  // namespace ddp::internal
