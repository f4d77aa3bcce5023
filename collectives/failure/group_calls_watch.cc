// SPDX-License-Identifier: Apache-2.0
// What the watchdog asks of GroupCalls.
#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/errors.h"
#include "collectives/failure/call_status.h"
#include "collectives/failure/failure_broadcast.h"
#include "collectives/failure/group_calls.h"
#include "collectives/failure/watchdog.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAnswersLimit(500);  // for the other ranks to say where they are

/// More for calls between two ranks: a library that watches them itself says which message is
/// missing, and what came instead.
constexpr milliseconds kGrace(1000);

}  // namespace

void GroupCalls::begin_watch(Backend& backend, std::shared_ptr<Watchdog> watchdog,
                             std::shared_ptr<FailureBroadcast> broadcast) {
  backend_ = &backend;
  broadcast_ = std::move(broadcast);
  watchdog_ = std::move(watchdog);
  watchdog_->add(shared_from_this());
  backend.watch([self = weak_from_this()](const Error& error) {
    const auto calls = self.lock();
    if (!calls) return;
    calls->note(error);
    calls->spread(error);
  });
}

std::shared_ptr<Watchdog> GroupCalls::watchdog() const {
  const std::lock_guard lock(mutex_);
  return watchdog_;
}

void GroupCalls::spread(const Error& error) {
  if (const auto awake = watchdog()) awake->spread(shared_from_this(), error);
}

/// Without a lock where threads are waited for that may ask us: the broadcast's, which may be in
/// the watchdog, and the watchdog's.
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

std::optional<Error> GroupCalls::close_completed(Time now) {
  std::optional<Error> failure;
  for (Opens* line : {&calls_, &messages_}) {
    for (auto open = line->begin(); open != line->end();) {
      if (!open->async || !open->async->is_completed()) {
        if (line == &calls_) break;  // so are those behind
        ++open;
        continue;
      }
      const auto error = open->async->error();
      if (!failure) failure = error;
      open = close(*line, open, !error, now);
    }
  }
  return failure;
}

GroupCalls::Time GroupCalls::look(Time now) {
  std::optional<Error> failure;
  Time next = Time::max();
  {
    const std::lock_guard lock(mutex_);
    failure = close_completed(now);
    next = next_look(now);
  }
  if (failure && !note(*failure) && failure->kind() == ErrorKind::peer_lost) {
    if (const auto awake = watchdog()) awake->spread_aside(shared_from_this(), *failure);
  }
  return next;
}

GroupCalls::Time GroupCalls::next_look(Time now) const {
  Time next = Time::max();
  if (failure_ || judged_) return next;
  for (const Open& message : messages_) {
    next = std::min(next, message.since + message.limit + kGrace);
  }
  if (calls_.empty()) return next;
  const Open& first = calls_.front();
  next = std::min(next, first.since + first.limit);
  if (calls_.size() == 1 || !first.async) return next;
  const auto often = std::clamp(first.limit / 8, milliseconds(10), milliseconds(1000));
  return std::min(next, now + often);
}

std::optional<GroupCalls::Overdue> GroupCalls::find_overdue(Time now) {
  const std::lock_guard lock(mutex_);
  if (failure_ || judged_) return std::nullopt;
  const auto late = [&](const Open& open) {
    const bool alone = is_point_to_point(open.call.operation);
    return open.since + open.limit + (alone ? kGrace : milliseconds(0)) <= now;
  };
  const Open* found = nullptr;
  if (!calls_.empty() && late(calls_.front())) found = &calls_.front();
  const auto message = std::ranges::find_if(messages_, late);
  if (found == nullptr && message != messages_.end()) found = &*message;
  if (found == nullptr) return std::nullopt;
  judged_ = true;
  return Overdue{found->call, found->limit};
}

bool GroupCalls::has_calls() const {
  const std::lock_guard lock(mutex_);
  return !calls_.empty() || !messages_.empty();
}

std::string GroupCalls::where() const {
  const std::lock_guard lock(mutex_);
  if (!calls_.empty()) return "in " + describe(calls_.front().call);
  return messages_.empty() ? "" : "in " + describe(messages_.front().call);
}

void GroupCalls::publish_status() const {
  std::string status = "in no call yet";
  {
    const std::lock_guard lock(mutex_);
    if (!calls_.empty()) {
      status = "at " + describe(calls_.front().call);
    } else if (!messages_.empty()) {
      status = "at " + describe(messages_.front().call);
    } else if (last_) {
      status = "in no call since " + describe(*last_);
    }
  }
  if (context_.store)
    context_.store->set(context_.prefix + "statuses/" + std::to_string(context_.rank), status);
}

std::map<int, std::string> GroupCalls::ask_statuses() const {
  std::vector<std::string> keys;
  for (int rank = 0; rank < context_.size; ++rank) {
    keys.push_back(context_.prefix + "statuses/" + std::to_string(rank));
  }
  Store& store = *context_.store;
  try {
    store.wait(keys, kAnswersLimit);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timed_out) throw;
  }
  std::map<int, std::string> statuses;
  for (int rank = 0; rank < context_.size; ++rank) {
    const std::string& key = keys[static_cast<std::size_t>(rank)];
    statuses[context_.named(rank)] =
        store.check({key}) ? status_of(store.get(key)) : "not answering";
  }
  return statuses;
}

AgreedError GroupCalls::judge(const Overdue& overdue) {
  AgreedError agreed = {ErrorKind::timed_out,
                        "rank " + std::to_string(context_.named(context_.rank)) + " waited " +
                            name_time(overdue.limit) + " in vain in " + describe(overdue.call)};
  if (!context_.store) return agreed;  // all ranks are in this process
  try {
    {
      const std::lock_guard lock(broadcast_mutex_);
      if (broadcast_) broadcast_->raise(context_.prefix);  // else we have just left the group
    }
    publish_status();
    agreed.sentence += ": " + compare_statuses(ask_statuses());
    return propose_error(context_, agreed);
  } catch (const Error& error) {
    agreed.sentence += " and cannot ask the others: ";
    agreed.sentence += error.what();
    return agreed;
  }
}

AgreedError GroupCalls::tell_others(const Error& error) {
  const std::string text = error.what();
  const AgreedError own = {error.kind(), text.starts_with("ddp: ") ? text.substr(5) : text};
  try {
    const AgreedError agreed = propose_error(context_, own);
    const std::lock_guard lock(broadcast_mutex_);
    if (broadcast_) broadcast_->raise(context_.prefix);
    return agreed;
  } catch (const Error&) {
    return own;
  }
}

void GroupCalls::give_up(const AgreedError& agreed) {
  look(steady_clock::now());  // which call is under way, and which is over and was not looked at
  AgreedError decided = agreed;
  try {
    decided = propose_error(context_, agreed);  // before connections end, and the others ask why
  } catch (const Error&) {
    // Without a store, what this rank knows has to do.
  }
  note(to_error(context_, where(), decided));
}

void GroupCalls::abort() noexcept {
  const std::lock_guard lock(backend_mutex_);
  if (backend_ != nullptr) backend_->abort();
}

}  // namespace ddp::internal
