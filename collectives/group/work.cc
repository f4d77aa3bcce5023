// SPDX-License-Identifier: Apache-2.0
#include "ddp/work.h"

#include <exception>
#include <string>
#include <utility>

#include "collectives/background.h"
#include "collectives/call/async_call.h"
#include "collectives/errors.h"
#include "collectives/failure/group_calls.h"
#include "collectives/time_limit.h"

namespace ddp {
namespace {

/// How often wait_any() looks at calls whose end no thread notices: those of MPI and NCCL.
constexpr std::chrono::microseconds kLook{50};

std::shared_ptr<internal::AsyncCall> make_ended_call() {
  auto ended = std::make_shared<internal::Completion>();
  ended->succeed();
  return ended;
}

}  // namespace

Work::Work() : call_(make_ended_call()) {}

Work::Work(std::shared_ptr<internal::AsyncCall> call, std::shared_ptr<internal::GroupCalls> calls,
           std::uint64_t id)
    : call_(std::move(call)), calls_(std::move(calls)), id_(id) {}

/// The call has ended. Returns true.
bool Work::notice_end() const {
  if (!calls_) return true;
  if (const auto error = call_->error()) {
    calls_->fail(id_, *error);
  } else {
    calls_->succeed(id_);
  }
  return true;
}

bool Work::is_completed() const {
  return call_->is_completed() && notice_end();
}

bool Work::completes_until(std::chrono::steady_clock::time_point deadline) const {
  return call_->completes_until(deadline) && notice_end();
}

std::optional<Error> Work::error() const {
  const auto error = call_->error();
  return error && calls_ ? std::optional(calls_->fail(id_, *error)) : error;
}

void Work::wait() const {
  try {
    call_->wait();
  } catch (const Error& error) {
    throw Error(calls_ ? calls_->fail(id_, error) : error);
  }
  static_cast<void>(is_completed());
}

void Work::wait(std::chrono::milliseconds timeout) const {
  if (!completes_until(std::chrono::steady_clock::now() + internal::bounded(timeout))) {
    throw Error(ErrorKind::timed_out, "ddp: the call is not done after " +
                                          internal::name_time(timeout) + ", and goes on");
  }
  if (const auto failure = error()) throw Error(*failure);
}

/// Calls `next` after the call. Returns what it throws.
std::optional<Error> Work::follow(
    const std::function<void(const std::optional<Error>& failure)>& next) const {
  try {
    while (!completes_until(std::chrono::steady_clock::now() + std::chrono::hours(1))) continue;
    next(error());
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

Work Work::then(std::function<void()> next) const {
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): std::function's destructor frees it
  return then([next = std::move(next)](const std::optional<Error>& failure) {
    if (failure) throw Error(*failure);
    next();
  });
}

Work Work::then(std::function<void(const std::optional<Error>& failure)> next) const {
  auto both = std::make_shared<internal::Completion>();
  auto run = [work = *this, next = std::move(next), both]() mutable {
    const auto error = work.follow(next);
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

void wait_all(std::span<const Work> works) {
  std::optional<Error> first;
  for (const Work& work : works) {
    try {
      work.wait();
    } catch (const Error& error) {
      if (!first) first = error;
    }
  }
  if (first) throw Error(*first);
}

std::size_t wait_any(std::span<const Work> works) {
  if (works.empty()) throw Error(ErrorKind::usage, "ddp: wait_any of no call");
  const auto signal = std::make_shared<internal::EndSignal>();
  std::chrono::microseconds limit = std::chrono::hours(1);
  for (const Work& work : works) {
    if (!work.call_->give_at_end(signal)) limit = kLook;
  }
  while (true) {
    for (std::size_t at = 0; at < works.size(); ++at) {
      if (works[at].completes_until({})) return at;
    }
    signal->wait(limit);
  }
}

}  // namespace ddp
