// SPDX-License-Identifier: Apache-2.0
#include "ddp/work.h"

#include <exception>
#include <string>
#include <utility>

#include "collectives/background.h"
#include "collectives/call/async_call.h"
#include "collectives/errors.h"
#include "collectives/time_limit.h"

namespace ddp {
namespace {

/// Returns the error of the call, or of `next`, which it calls after the call.
std::optional<Error> follow(internal::AsyncCall& call, const std::function<void()>& next) {
  try {
    while (!call.completes_until(std::chrono::steady_clock::now() + std::chrono::hours(1)))
      continue;
    if (const auto error = call.error()) return error;
    next();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& thrown) {
    return Error(ErrorKind::system,
                 std::string("ddp: a function given to Work::then threw: ") + thrown.what());
  } catch (...) {
    return Error(ErrorKind::system, "ddp: a function given to Work::then threw no std::exception");
  }
  return std::nullopt;
}

}  // namespace

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
  if (!call_->completes_until(std::chrono::steady_clock::now() + internal::bounded(timeout))) {
    throw Error(ErrorKind::timed_out, "ddp: the call is not done after " +
                                          internal::name_time(timeout) + ", and goes on");
  }
  if (const auto error = call_->error()) throw Error(*error);
}

Work Work::then(std::function<void()> next) const {
  auto both = std::make_shared<internal::Completion>();
  auto run = [call = call_, next = std::move(next), both]() mutable {
    const auto error = follow(*call, next);
    next = nullptr;  // a waiting thread finds nothing left of it
    if (!error) return both->succeed();
    // The end of the process cuts this call short, so its error is not for the program.
    if (internal::ends_from_background()) return both->abandon();
    both->fail(*error);
  };
  internal::run_in_background(std::move(run), [both] { both->abandon(); });
  return Work(both);
}

std::optional<std::chrono::nanoseconds> Work::duration() const {
  return call_->duration();
}

}  // namespace ddp
