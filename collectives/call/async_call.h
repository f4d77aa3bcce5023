// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "ddp/error.h"

namespace ddp::internal {

/// A call that was begun, as Work shows it. Thread: any, several at once.
class AsyncCall {
 public:
  AsyncCall() = default;
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;
  virtual ~AsyncCall() = default;

  /// Never blocks; nor does error().
  virtual bool is_completed() = 0;
  virtual std::optional<Error> error() = 0;

  /// As Work::wait() is for the buffers of the call. Throws the call's error.
  virtual void wait() = 0;

  /// Whether this rank's part is over, well or not, by then.
  virtual bool completes_until(std::chrono::steady_clock::time_point deadline) = 0;

  /// As Work::duration(); nothing where it is not known.
  virtual std::optional<std::chrono::nanoseconds> duration() { return std::nullopt; }
};

/// A call in host memory that one thread does while others wait.
class Completion : public AsyncCall {
 public:
  /// The thread turns to it. Once, if at all.
  void start();

  /// It is over: well, or not. Once.
  void succeed();
  void fail(const Error& error);

  bool is_completed() override;
  std::optional<Error> error() override;
  void wait() override;
  bool completes_until(std::chrono::steady_clock::time_point deadline) override;
  std::optional<std::chrono::nanoseconds> duration() override;

 private:
  void finish(std::optional<Error> error);

  std::mutex mutex_;
  std::condition_variable over_;
  bool completed_ = false;
  std::optional<Error> error_;
  std::optional<std::chrono::steady_clock::time_point> started_;
  std::optional<std::chrono::nanoseconds> duration_;
};

}  // namespace ddp::internal
