// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/watch.h"

#include <chrono>
#include <utility>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

constexpr std::chrono::milliseconds kPause(50);  // failures are not urgent

}  // namespace

NcclCall::NcclCall(std::shared_ptr<NcclCommunicator> communicator, std::string where,
                   bool is_captured)
    : communicator_(std::move(communicator)),
      where_(std::move(where)),
      is_captured_(is_captured),
      end_(communicator_->events().take()) {}

NcclCall::~NcclCall() {
  if (!is_captured_) communicator_->events().give_back(std::move(end_));
}

void NcclCall::record_end(CUstream stream) {
  end_->record(stream);
  is_recorded_ = true;
}

void NcclCall::make_wait(CUstream stream) const {
  if (!is_recorded_) {
    throw Error(ErrorKind::usage, "ddp: a call's Work is waited for before its group_end()");
  }
  end_->make_wait(stream);
}

/// Leaves an error of CUDA to NcclWatch, which polls too: failing the communicator takes the store,
/// and other locks.
bool NcclCall::is_over() noexcept {
  try {
    return check();
  } catch (const Error&) {
    return false;
  }
}

bool NcclCall::check() {
  if (succeeded_) return true;
  // The event first, then the failure: an abort also lets the stream reach the event, but the
  // failure is set before that.
  bool reached = is_recorded_;
  if (reached && !is_captured_ && !communicator_->failure()) {
    const BesideCaptures beside;
    reached = end_->is_reached();
  }
  if (communicator_->failure()) return true;
  succeeded_ = reached;
  return reached;
}

std::optional<Error> NcclCall::error() {
  if (is_over() && succeeded_) return std::nullopt;
  return communicator_->failure();
}

NcclWatch::NcclWatch(std::shared_ptr<NcclCommunicator> communicator)
    : communicator_(std::move(communicator)) {
  thread_ = signal_masked_thread([this] { watch(); });
}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void NcclWatch::add(std::shared_ptr<NcclCall> call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  if (sleeps_) changed_.notify_all();  // otherwise the thread polls already
}

/// Polls for a second before it sleeps: waking the thread would cost each call some microseconds.
void NcclWatch::wait_for_call(std::unique_lock<std::mutex>& lock) {
  constexpr int kLooks = 20;
  for (int look = 0; look < kLooks && calls_.empty() && !stopping_; ++look) {
    changed_.wait_for(lock, kPause, [&] { return stopping_; });
  }
  sleeps_ = true;
  changed_.wait(lock, [&] { return stopping_ || !calls_.empty(); });
  sleeps_ = false;
}

void NcclWatch::watch() {
  std::unique_lock lock(mutex_);
  while (true) {
    wait_for_call(lock);
    if (stopping_) return;
    const std::shared_ptr<NcclCall> first = calls_.front();
    lock.unlock();
    bool is_over = true;
    try {
      is_over = first->check();
      if (!is_over) communicator_->check_async_error(first->where());
    } catch (const Error& error) {
      communicator_->fail(first->where(), error);
    }
    lock.lock();
    if (is_over) {
      calls_.pop_front();
    } else {
      changed_.wait_for(lock, kPause, [&] { return stopping_; });
    }
  }
}

}  // namespace ddp::internal
