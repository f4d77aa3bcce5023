// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/async_call.h"

#include <utility>

#include "collectives/background.h"

namespace ddp::internal {

void EndSignal::give() {
  const std::lock_guard lock(mutex_);
  is_given_ = true;
  given_.notify_all();
}

void EndSignal::wait(std::chrono::microseconds limit) {
  std::unique_lock lock(mutex_);
  given_.wait_for(lock, limit, [&] { return is_given_; });
  is_given_ = false;
}

void Completion::start() {
  const std::lock_guard lock(mutex_);
  started_ = std::chrono::steady_clock::now();
}

void Completion::succeed() {
  finish(std::nullopt);
}

void Completion::fail(const Error& error) {
  finish(error);
}

void Completion::finish(std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  set_ended(std::move(error));
  over_.notify_all();
}

void Completion::end(std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  set_ended(std::move(error));
}

void Completion::wake() {
  over_.notify_all();
}

/// mutex_ is locked.
void Completion::set_ended(std::optional<Error> error) {
  error_ = std::move(error);
  if (started_) duration_ = std::chrono::steady_clock::now() - *started_;
  completed_ = true;
  give_signals();
}

/// mutex_ is locked.
void Completion::give_signals() {
  for (const auto& each : signals_) {
    if (const auto signal = each.lock()) signal->give();
  }
  signals_.clear();
}

bool Completion::give_at_end(const std::shared_ptr<EndSignal>& signal) {
  const std::lock_guard lock(mutex_);
  std::erase_if(signals_, [](const auto& each) { return each.expired(); });
  signals_.push_back(signal);
  if (completed_ || abandoned_) give_signals();
  return true;
}

void Completion::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  give_signals();
  over_.notify_all();
}

/// Returns whether the call has ended; mutex_ is locked. Throws if it never will and the process
/// waits for this thread.
bool Completion::is_over() const {
  if (!completed_ && abandoned_ && is_in_background()) {
    throw Error(ErrorKind::system, "ddp: the process ends before the call does");
  }
  return completed_;
}

bool Completion::is_completed() {
  return completed_;
}

std::optional<Error> Completion::error() {
  return completed_ ? error_ : std::nullopt;
}

std::unique_lock<std::mutex> Completion::keep_open() {
  std::unique_lock lock(mutex_);
  if (completed_) lock.unlock();
  return lock;
}

void Completion::wait() {
  if (!completed_) {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return is_over(); });
  }
  if (error_) throw Error(*error_);
}

bool Completion::completes_until(std::chrono::steady_clock::time_point deadline) {
  if (completed_) return true;
  std::unique_lock lock(mutex_);
  return over_.wait_until(lock, deadline, [&] { return is_over(); });
}

std::optional<std::chrono::nanoseconds> Completion::duration() {
  return completed_ ? duration_ : std::nullopt;
}

}  // namespace ddp::internal
