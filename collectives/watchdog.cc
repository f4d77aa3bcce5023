// SPDX-License-Identifier: Apache-2.0
#include "collectives/watchdog.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "collectives/death_note.h"
#include "collectives/failure.h"
#include "collectives/quiet_thread.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kVerdictLimit = seconds(5);  // from the alarm to the verdict
constexpr milliseconds kOverLook(20);               // nobody tells when a failed call is over

/// For all groups to be failed, and their calls to end.
milliseconds bound_of(milliseconds limit) {
  return std::clamp<milliseconds>(limit, seconds(5), seconds(60));
}

}  // namespace

std::shared_ptr<Watchdog> Watchdog::of_process() {
  static std::mutex mutex;
  static std::weak_ptr<Watchdog> current;
  const std::lock_guard lock(mutex);
  auto watchdog = current.lock();
  if (!watchdog) current = watchdog = std::make_shared<Watchdog>();
  return watchdog;
}

Watchdog::Watchdog() : thread_(quiet_thread([this] { run(); })) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
  for (std::thread& helper : helpers_) helper.join();
}

void Watchdog::add(const std::shared_ptr<GroupCalls>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

std::vector<std::shared_ptr<GroupCalls>> Watchdog::groups() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<GroupCalls>> alive;
  for (const auto& group : groups_) {
    if (auto found = group.lock()) alive.push_back(std::move(found));
  }
  return alive;
}

void Watchdog::look_at(Time when) {
  if (when >= looks_at_.load()) return;
  const std::lock_guard lock(mutex_);
  if (when >= looks_at_.load()) return;
  looks_at_ = when;
  changed_.notify_all();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!ends_ || emergency_) {
    const Time until = emergency_ ? steady_clock::now() + kOverLook : looks_at_.load();
    if (until == Time::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, until);
    }
    lock.unlock();
    if (looks_at_.load() <= steady_clock::now()) look();
    check_emergency();
    lock.lock();
  }
}

void Watchdog::look() {
  {
    const std::lock_guard lock(mutex_);
    looks_at_ = Time::max();  // a call that begins during the look has it come again
  }
  Time next = Time::max();
  for (const auto& group : groups()) {
    const Time now = steady_clock::now();
    next = std::min(next, group->look(now));
    const auto overdue = group->find_overdue(now);
    if (!overdue) continue;
    if (overdue->call.operation == Operation::leave) {
      group->abort();
      continue;
    }
    begin_emergency(
        "ddp: a call waited " + name_time(overdue->limit) + " in vain: " + describe(overdue->call),
        bound_of(overdue->limit));
    helpers_.push_back(
        quiet_thread([this, group, late = *overdue] { fail_all(group->judge(late)); }));
  }
  look_at(next);
}

void Watchdog::hear(Store& store, const std::string& prefix) {
  begin_emergency("ddp: another rank raised the alarm", bound_of(kVerdictLimit));
  try {
    for (const auto& group : groups()) {
      if (group->meeting().prefix == prefix) group->publish_stand();
    }
    fail_all(wait_for_verdict(store, prefix, kVerdictLimit));
  } catch (const Error& error) {
    fail_all({ErrorKind::timed_out,
              std::string("another rank raised the alarm, and did not say why: ") + error.what()});
  }
}

void Watchdog::hear_loss(const std::string& sentence) {
  begin_emergency("ddp: " + sentence, bound_of(kVerdictLimit));
  fail_all({ErrorKind::peer_lost, sentence});
}

void Watchdog::fail_all(const Verdict& verdict) {
  {
    const std::lock_guard lock(mutex_);
    emergency_->why = "ddp: " + verdict.sentence;
  }
  // At once, for the work of one group may have to end before another's can.
  std::vector<std::thread> threads;
  for (const auto& group : groups()) {
    threads.push_back(quiet_thread([&verdict, group] { group->give_up(verdict); }));
  }
  for (std::thread& thread : threads) thread.join();
  const std::lock_guard lock(mutex_);
  --emergency_->actors;
}

void Watchdog::begin_emergency(const std::string& why, milliseconds bound) {
  const std::lock_guard lock(mutex_);
  if (!emergency_) emergency_ = {why, bound, steady_clock::now() + bound, 0};
  ++emergency_->actors;
  changed_.notify_all();
}

void Watchdog::check_emergency() {
  std::optional<Emergency> now;
  {
    const std::lock_guard lock(mutex_);
    now = emergency_;
  }
  if (!now) return;
  if (now->actors == 0 && std::ranges::none_of(groups(), [](const auto& group) {
        group->look(steady_clock::now());
        return group->has_failed() && group->has_calls();
      })) {
    const std::lock_guard lock(mutex_);
    if (emergency_->actors == 0) emergency_.reset();
    return;
  }
  if (steady_clock::now() >= now->end) end_process(*now);
}

void Watchdog::end_process(const Emergency& emergency) {
  const std::string text = emergency.why + ". After another " + name_time(emergency.bound) +
                           " its calls have not ended: the process does";
  print(text + "\n");
  if (begin_death_note()) {
    write_death_note(text, text + "\n");
    finish_death_note();
  }
  ::_exit(kExitCode);
}

}  // namespace ddp::internal
