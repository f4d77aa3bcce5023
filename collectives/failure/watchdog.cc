// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/watchdog.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "collectives/backends/nccl/backend.h"
#include "collectives/crash/crash_report.h"
#include "collectives/errors.h"
#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kAgreementLimit = seconds(5);  // from the broadcast to the agreed error
constexpr milliseconds kOverLook(20);                 // nobody tells when a failed call is over

/// For all groups to be failed, and their calls to end: the time that calls may take in the most
/// patient of them, within reason.
milliseconds bound_of(const std::vector<std::shared_ptr<GroupCalls>>& groups) {
  milliseconds longest(0);
  for (const auto& group : groups) longest = std::max(longest, group->limit());
  return std::clamp<milliseconds>(longest, seconds(5), seconds(60));
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

Watchdog::Watchdog() : thread_(signal_masked_thread([this] { run(); })) {}

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

Watchdog::Groups Watchdog::groups() {
  const std::lock_guard lock(mutex_);
  Groups alive;
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
    begin_emergency("ddp: a call waited " + name_time(overdue->limit) +
                    " in vain: " + describe(overdue->call));
    if (overdue->call.operation == Operation::leave) {
      help([this, group] {
        group->abort();
        end_part();
      });
      continue;
    }
    help([this, group, late = *overdue] {
      const AgreedError agreed = group->judge(late);
      fail_all(groups(), agreed);
    });
  }
  look_at(next);
}

void Watchdog::hear(Store& store, const std::string& prefix) {
  begin_emergency("ddp: another rank raised the broadcast");
  const Groups all = groups();
  try {
    for (const auto& group : all) {
      if (group->context().prefix == prefix) group->publish_status();
    }
    fail_all(all, wait_for_agreed_error(store, prefix, kAgreementLimit));
  } catch (const Error& error) {
    fail_all(all, {ErrorKind::timed_out,
                   std::string("another rank raised the broadcast, and did not say why: ") +
                       error.what()});
  }
}

void Watchdog::hear_loss(const std::string& sentence) {
  begin_emergency("ddp: " + sentence);
  fail_all(groups(), {ErrorKind::peer_lost, sentence});
}

void Watchdog::spread(const std::shared_ptr<GroupCalls>& group, const Error& error) {
  begin_emergency(error.what());
  // Not those groups that the program makes when it has caught the error.
  help([this, all = groups(), agreed = group->tell_others(error)] { fail_all(all, agreed); });
}

void Watchdog::spread_aside(const std::shared_ptr<GroupCalls>& group, const Error& error) {
  begin_emergency(error.what());
  help([this, all = groups(), group, error] { fail_all(all, group->tell_others(error)); });
}

void Watchdog::help(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  helpers_.push_back(signal_masked_thread(std::move(work)));
}

void Watchdog::fail_all(const Groups& groups, const AgreedError& agreed) {
  {
    const std::lock_guard lock(mutex_);
    emergency_->why = "ddp: " + agreed.sentence;
  }
  std::vector<std::thread> threads;  // each asks the store
  for (const auto& group : groups) {
    threads.push_back(signal_masked_thread([&agreed, group] { group->give_up(agreed); }));
  }
  for (std::thread& thread : threads) thread.join();
  abort_together([&] {
    for (const auto& group : groups) group->abort();
  });
  end_part();
}

void Watchdog::begin_emergency(const std::string& why) {
  const milliseconds bound = bound_of(groups());
  const std::lock_guard lock(mutex_);
  if (!emergency_) emergency_ = {why, bound, steady_clock::now() + bound, 0};
  ++emergency_->actors;
  changed_.notify_all();
}

void Watchdog::end_part() {
  const std::lock_guard lock(mutex_);
  --emergency_->actors;
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
  if (begin_crash_report()) {
    write_crash_report(text, text + "\n");
    finish_crash_report();
  }
  ::_exit(kExitCode);
}

}  // namespace ddp::internal
