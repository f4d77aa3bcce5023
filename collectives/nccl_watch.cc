// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl_watch.h"

#include <utility>

#include "collectives/failure.h"
#include "collectives/quiet_thread.h"

namespace ddp::internal {

NcclCall::NcclCall(std::shared_ptr<NcclCommunicator> communicator, std::string where,
                   bool is_captured)
    : communicator_(std::move(communicator)), where_(std::move(where)), is_captured_(is_captured) {}

void NcclCall::mark_end() {
  end_.record(communicator_->stream());
  is_marked_ = true;
}

void NcclCall::make_wait(CUstream stream) const {
  if (!is_marked_) {
    throw Error(ErrorKind::usage, "ddp: a call's Work is waited for before its group_end()");
  }
  end_.make_wait(stream);
}

bool NcclCall::is_over() {
  if (succeeded_) return true;
  // The event before the failure: whoever fails says so first, and lets the stream go on then.
  bool reached = is_marked_;
  try {
    const BesideCaptures beside;
    if (reached && !is_captured_) reached = end_.is_reached();
  } catch (const Error& error) {
    communicator_->fail(where_, error);
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
  thread_ = quiet_thread([this] { watch(); });
}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void NcclWatch::add(std::shared_ptr<NcclCall> call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  changed_.notify_all();
}

void NcclWatch::watch() {
  constexpr std::chrono::milliseconds kPause(50);  // NCCL has to be asked; a failure can wait a bit
  std::unique_lock lock(mutex_);
  std::shared_ptr<NcclCall> first;
  std::chrono::steady_clock::time_point since;
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !calls_.empty(); });
    if (ends_) return;
    if (first != calls_.front()) {
      first = calls_.front();
      since = std::chrono::steady_clock::now();
    }
    lock.unlock();
    bool is_over = true;
    try {
      is_over = first->is_over();
      if (!is_over) look(*first, since);
    } catch (const Error& error) {
      communicator_->fail(first->where(), error);
    }
    lock.lock();
    if (is_over) {
      calls_.pop_front();
    } else {
      changed_.wait_for(lock, kPause, [&] { return ends_; });
    }
  }
}

void NcclWatch::look(const NcclCall& first, std::chrono::steady_clock::time_point since) {
  communicator_->look_for_failure(first.where());
  const auto timeout = communicator_->meeting().timeout;
  if (std::chrono::steady_clock::now() - since < timeout) return;
  communicator_->fail_waiting(first.where());
}

}  // namespace ddp::internal
