// SPDX-License-Identifier: Apache-2.0
#include "ddp/work.h"

#include <utility>

#include "collectives/call/async_call.h"
#include "collectives/errors.h"

namespace ddp {

Work::Work(std::shared_ptr<internal::AsyncCall> call) : pending_(std::move(call)) {}

bool Work::is_completed() const {
  return pending_->is_completed();
}

std::optional<Error> Work::error() const {
  return pending_->error();
}

void Work::wait() const {
  pending_->wait();
}

void Work::wait(std::chrono::milliseconds timeout) const {
  if (!pending_->completes_until(std::chrono::steady_clock::now() + timeout)) {
    throw Error(ErrorKind::timed_out, "ddp: the call is not done after " +
                                          internal::name_time(timeout) + ", and goes on");
  }
  if (const auto error = pending_->error()) throw Error(*error);
}

std::optional<std::chrono::nanoseconds> Work::duration() const {
  return pending_->duration();
}

}  // namespace ddp
