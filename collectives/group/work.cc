// SPDX-License-Identifier: Apache-2.0
#include "ddp/work.h"

#include <utility>

#include "collectives/call/async_call.h"
#include "collectives/errors.h"

namespace ddp {

Work::Work(std::shared_ptr<internal::AsyncCall> call) : call_(std::move(call)) {}

bool Work::is_completed() const {
  return call_->is_completed();
}

std::optional<Error> Work::error() const {
  return call_->error();
}

void Work::wait() const {
  call_->wait();
}

void Work::wait(std::chrono::milliseconds timeout) const {
  if (!call_->completes_until(std::chrono::steady_clock::now() + timeout)) {
    throw Error(ErrorKind::timed_out, "ddp: the call is not done after " +
                                          internal::name_time(timeout) + ", and goes on");
  }
  if (const auto error = call_->error()) throw Error(*error);
}

std::optional<std::chrono::nanoseconds> Work::duration() const {
  return call_->duration();
}

}  // namespace ddp
