// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/group_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/agreement/process_end.h"
#include "collectives/agreement/rank_status.h"
#include "collectives/errors.h"
#include "collectives/failure/call_status.h"
#include "collectives/failure/trace.h"
#include "collectives/time_limit.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kStatusLimit(2'000);  // for the other ranks to publish their statuses
constexpr milliseconds kCallsLimit(5'000);   // the same for ranks that all fail, except busy ones
constexpr milliseconds kEndLimit(4'000);     // for the process of a rank that is gone to end

}  // namespace

GroupCalls::GroupCalls(GroupContext context, const std::string& backend_name)
    : context_(std::move(context)),
      limit_(bounded(context_.timeout)),
      open_(context_, backend_name) {}

void GroupCalls::begin_watch(Backend& backend, std::shared_ptr<Watchdog> watchdog,
                             std::shared_ptr<FailureBroadcast> broadcast) {
  backend_ = &backend;
  broadcast_ = std::move(broadcast);
  watchdog_ = std::move(watchdog);
  watchdog_->add(shared_from_this());
  backend.watch([self = weak_from_this()](const Error& error) {
    const auto calls = self.lock();
    if (!calls) return;
    calls->set_failure(error);
    calls->report_failure(error);
  });
}

/// Destroys the broadcast and the watchdog without the lock that their threads take. Each
/// destructor waits for threads that may be in this object, and the broadcast's may be in the
/// watchdog.
void GroupCalls::end_watch() {
  {
    const std::lock_guard lock(backend_mutex_);
    backend_ = nullptr;
  }
  std::shared_ptr<FailureBroadcast> broadcast;
  {
    const std::lock_guard lock(broadcast_mutex_);
    broadcast.swap(broadcast_);
  }
  broadcast.reset();
  std::shared_ptr<Watchdog> watchdog;
  const std::lock_guard lock(mutex_);
  watchdog.swap(watchdog_);
}

std::shared_ptr<Watchdog> GroupCalls::watchdog() const {
  const std::lock_guard lock(mutex_);
  return watchdog_;
}

void GroupCalls::set_limit(milliseconds limit) {
  limit_ = bounded(limit);
}

GroupCalls::CallId GroupCalls::begin(const Task& task) {
  const milliseconds limit = limit_;
  if (has_failed_) throw_failure();
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  const Time now = clock_.now();
  const CallId id = open_.begin(task, limit, now);
  if (watchdog_) watchdog_->check_by(next_check(now));
  return id;
}

void GroupCalls::record(const Transfer& message, Time now) {
  if (has_failed_) throw_failure();
  open_.record(message, now);
}

void GroupCalls::record(const Task& task) {
  if (has_failed_) throw_failure();
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  open_.record(task, clock_.now());
}

/// mutex_ is locked.
GroupCalls::Time GroupCalls::next_check(Time now) const {
  return failure_ || timed_out_ ? Time::max() : open_.next_check(now);
}

void GroupCalls::close(CallId id, bool succeeded) {
  const std::lock_guard lock(mutex_);
  open_.close(id, succeeded, clock_.now());
}

void GroupCalls::succeed(CallId id) {
  close(id, true);
}

Error GroupCalls::fail(CallId id, const Error& error) {
  const Error complete = has_failed_ ? error : with_all_calls(error);
  close(id, false);
  const Error first = fail(complete);
  outlast_gone_rank(first);
  return first;
}

void GroupCalls::throw_failure() {
  const Error failure = [this] {
    const std::lock_guard lock(mutex_);
    return failure_.value();
  }();
  outlast_gone_rank(failure);
  throw Error(failure);
}

/// The group has failed on all ranks by now: none waits for this one.
void GroupCalls::outlast_gone_rank(const Error& failure) {
  const std::vector<int>& gone = failure.lost_ranks();
  if (gone.empty() || !context_.store) return;
  std::call_once(outlasted_, [&] {
    for (int rank = 0; rank < context_.size; ++rank) {
      if (std::ranges::count(gone, context_.named(rank)) == 0 || rank == context_.rank) continue;
      try {
        if (!context_.store->check({joined_key(context_, rank)})) return;
        std::string line = context_.store->get(joined_key(context_, rank));
        line.resize(std::min(line.rfind(' '), line.size()));
        wait_for_end(line.substr(line.rfind(' ') + 1), kEndLimit);
      } catch (const Error&) {
        // The store is lost, and with it the name of the process.
      }
    }
  });
}

/// The error names two ranks. The other ranks also fail, publish their calls, and so show who is in
/// the minority. (If a rank is past the call and in none, or dead, the rank that found the
/// difference publishes its call, if it knows that.)
Error GroupCalls::with_all_calls(const Error& error) const {
  const std::uint64_t number = ErrorAccess::facts(error).number;
  if (number == 0 || !context_.store || context_.size == 2) return error;
  try {
    publish_status_in(number);
    const std::string fewest = name_fewest(fetch_statuses(kCallsLimit));
    if (fewest.empty()) return error;
    return ErrorAccess::make(error.kind(), std::string(error.what()) + "; " + fewest,
                             ErrorAccess::facts(error));
  } catch (const Error&) {
    return error;  // the store is lost: there is only what two ranks saw
  }
}

Error GroupCalls::fail(const Error& error) {
  if (const auto first = set_failure(error)) return *first;
  if (error.kind() == ErrorKind::peer_lost) report_failure(error);
  return error;
}

/// Returns the earlier failure, which stays, if there is one.
std::optional<Error> GroupCalls::set_failure(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return failure_;
    failure_ = error;
    has_failed_ = true;
  }
  write_trace_of_failure(context_.named(context_.rank), error.what());
  return std::nullopt;
}

void GroupCalls::report_failure(const Error& error) {
  if (const auto alive = watchdog()) alive->on_failure(shared_from_this(), error);
}

void GroupCalls::set_async(CallId id, const std::shared_ptr<AsyncCall>& async) {
  const std::lock_guard lock(mutex_);
  open_.set_async(id, async);
}

GroupCalls::Time GroupCalls::check_calls(Time now) {
  std::optional<Error> failure;
  Time next = Time::max();
  {
    const std::lock_guard lock(mutex_);
    failure = open_.close_completed(now);
    next = next_check(now);
  }
  if (failure && !set_failure(*failure) && failure->kind() == ErrorKind::peer_lost) {
    if (const auto alive = watchdog()) alive->on_failure_async(shared_from_this(), *failure);
  }
  return next;
}

std::optional<TimedOutCall> GroupCalls::find_timed_out(Time now) {
  const std::lock_guard lock(mutex_);
  if (failure_ || timed_out_) return std::nullopt;
  const auto found = open_.find_timed_out(now);
  timed_out_ = found.has_value();
  return found;
}

bool GroupCalls::has_failed_calls() const {
  const std::lock_guard lock(mutex_);
  return failure_ && !open_.empty();
}

void GroupCalls::publish_status() const {
  std::string status;
  {
    const std::lock_guard lock(mutex_);
    status = open_.status();
  }
  if (context_.store) context_.store->set(status_key(context_, context_.rank), status);
}

void GroupCalls::publish_status_in(std::uint64_t number) const {
  std::string status;
  {
    const std::lock_guard lock(mutex_);
    status = open_.status_in(number);
  }
  if (context_.store) context_.store->set(status_key(context_, context_.rank), status);
}

std::map<int, std::string> GroupCalls::fetch_statuses(milliseconds limit) const {
  std::vector<std::string> keys;
  for (int rank = 0; rank < context_.size; ++rank) keys.push_back(status_key(context_, rank));
  Store& store = *context_.store;
  try {
    store.wait(keys, limit);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timed_out) throw;
  }
  std::map<int, std::string> statuses;
  for (int rank = 0; rank < context_.size; ++rank) {
    const std::string& key = keys[static_cast<std::size_t>(rank)];
    statuses[context_.named(rank)] =
        store.check({key}) ? printable_status(store.get(key)) : kNotAnswering;
  }
  return statuses;
}

AgreedError GroupCalls::agree_on_timeout(const TimedOutCall& late) {
  const int own = context_.named(context_.rank);
  AgreedError agreed = {ErrorKind::timed_out,
                        "rank " + std::to_string(own) + " timed out after " +
                            name_time(late.limit) + " in " + describe(late.call),
                        {.rank = own}};
  if (!context_.store) return agreed;  // all ranks are in this process
  try {
    {
      const std::lock_guard lock(broadcast_mutex_);
      if (broadcast_)
        broadcast_->raise(context_.prefix);  // null: this rank has just left the group
    }
    publish_status();
    agreed.sentence += ": " + compare_statuses(fetch_statuses(kStatusLimit));
    return propose_error(context_, agreed);
  } catch (const Error& error) {
    return without_store(
        context_, agreed.sentence + ", and the status of the other ranks cannot be read", error);
  }
}

std::string GroupCalls::blame_store() const {
  return context_.rank_0_serves ? ", and the store, which rank 0 serves, has not answered" : "";
}

AgreedError GroupCalls::agree_on_failure(const Error& error) {
  AgreedError own = {error.kind(), plain_text(error), ErrorAccess::facts(error)};
  own.facts.rank = context_.named(context_.rank);
  try {
    const AgreedError agreed = propose_error(context_, own);
    const std::lock_guard lock(broadcast_mutex_);
    if (broadcast_) broadcast_->raise(context_.prefix);
    return agreed;
  } catch (const Error&) {
    return own;
  }
}

void GroupCalls::break_with(const AgreedError& agreed) {
  check_calls(steady_clock::now());  // so that current() is the call that is under way
  AgreedError decided = agreed;
  try {
    decided =
        propose_error(context_, agreed);  // before connections break and the other ranks ask why
  } catch (const Error&) {
    // The store is lost: this rank's own error remains.
  }
  std::string current;
  {
    const std::lock_guard lock(mutex_);
    current = open_.current();
  }
  set_failure(to_error(context_, current, decided));
}

void GroupCalls::abort() noexcept {
  const std::lock_guard lock(backend_mutex_);
  if (backend_ != nullptr) backend_->abort();
}

}  // namespace ddp::internal
