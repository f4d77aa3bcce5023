// SPDX-License-Identifier: Apache-2.0
// What the watchdog asks of GroupCalls.
#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/alarm.h"
#include "collectives/failure.h"
#include "collectives/group_calls.h"
#include "collectives/stand.h"
#include "collectives/watchdog.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAnswersLimit(500);  // for the other ranks to say where they stand

/// More for calls between two ranks: a library that watches them itself says which message is
/// missing, and what came instead.
constexpr milliseconds kGrace(1000);

}  // namespace

void GroupCalls::begin_watch(Backend& backend, std::shared_ptr<Watchdog> watchdog,
                             std::shared_ptr<Alarm> alarm) {
  backend_ = &backend;
  alarm_ = std::move(alarm);
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

/// Without a lock where threads are waited for that may ask us: the alarm's, which may be in the
/// watchdog, and the watchdog's.
void GroupCalls::end_watch() {
  {
    const std::lock_guard lock(backend_mutex_);
    backend_ = nullptr;
  }
  std::shared_ptr<Alarm> alarm;
  {
    const std::lock_guard lock(alarm_mutex_);
    alarm.swap(alarm_);
  }
  alarm.reset();
  std::shared_ptr<Watchdog> watchdog;
  const std::lock_guard lock(mutex_);
  watchdog.swap(watchdog_);
}

std::optional<Error> GroupCalls::close_completed(Time now) {
  std::optional<Error> failure;
  for (Opens* line : {&calls_, &messages_}) {
    for (auto open = line->begin(); open != line->end();) {
      if (!open->pending || !open->pending->is_completed()) {
        if (line == &calls_) break;  // so are those behind
        ++open;
        continue;
      }
      const auto error = open->pending->error();
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
  if (calls_.size() == 1 || !first.pending) return next;
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

void GroupCalls::publish_stand() const {
  std::string stand = "in no call yet";
  {
    const std::lock_guard lock(mutex_);
    if (!calls_.empty()) {
      stand = "at " + describe(calls_.front().call);
    } else if (!messages_.empty()) {
      stand = "at " + describe(messages_.front().call);
    } else if (last_) {
      stand = "in no call since " + describe(*last_);
    }
  }
  if (meeting_.store)
    meeting_.store->set(meeting_.prefix + "stands/" + std::to_string(meeting_.rank), stand);
}

std::map<int, std::string> GroupCalls::ask_stands() const {
  std::vector<std::string> keys;
  for (int rank = 0; rank < meeting_.size; ++rank) {
    keys.push_back(meeting_.prefix + "stands/" + std::to_string(rank));
  }
  Store& store = *meeting_.store;
  try {
    store.wait(keys, kAnswersLimit);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timed_out) throw;
  }
  std::map<int, std::string> stands;
  for (int rank = 0; rank < meeting_.size; ++rank) {
    const std::string& key = keys[static_cast<std::size_t>(rank)];
    stands[meeting_.named(rank)] = store.check({key}) ? stand_of(store.get(key)) : "not answering";
  }
  return stands;
}

Verdict GroupCalls::judge(const Overdue& overdue) {
  Verdict verdict = {ErrorKind::timed_out, "rank " + std::to_string(meeting_.named(meeting_.rank)) +
                                               " waited " + name_time(overdue.limit) +
                                               " in vain in " + describe(overdue.call)};
  if (!meeting_.store) return verdict;  // all ranks are in this process
  try {
    {
      const std::lock_guard lock(alarm_mutex_);
      if (alarm_) alarm_->raise(meeting_.prefix);  // else we have just left the group
    }
    publish_stand();
    verdict.sentence += ": " + compare_stands(ask_stands());
    return decide(meeting_, verdict);
  } catch (const Error& error) {
    verdict.sentence += " and cannot ask the others: ";
    verdict.sentence += error.what();
    return verdict;
  }
}

Verdict GroupCalls::tell_others(const Error& error) {
  const std::string text = error.what();
  const Verdict own = {error.kind(), text.starts_with("ddp: ") ? text.substr(5) : text};
  try {
    const Verdict verdict = decide(meeting_, own);
    const std::lock_guard lock(alarm_mutex_);
    if (alarm_) alarm_->raise(meeting_.prefix);
    return verdict;
  } catch (const Error&) {
    return own;
  }
}

void GroupCalls::give_up(const Verdict& verdict) {
  look(steady_clock::now());  // which call is under way, and which is over and was not looked at
  Verdict decided = verdict;
  try {
    decided = decide(meeting_, verdict);  // before connections end, and the others ask why
  } catch (const Error&) {
    // Without a store, what this rank knows has to do.
  }
  note(told_by(meeting_, where(), decided));
}

void GroupCalls::abort() noexcept {
  const std::lock_guard lock(backend_mutex_);
  if (backend_ != nullptr) backend_->abort();
}

}  // namespace ddp::internal
