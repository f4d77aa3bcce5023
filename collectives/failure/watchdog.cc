// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/watchdog.h"

#include <algorithm>
#include <utility>

#include "collectives/backends/nccl/backend.h"
#include "collectives/errors.h"
#include "collectives/failure/abort_limit.h"
#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kAgreementLimit = seconds(5);  // from the broadcast to the agreed error
constexpr milliseconds kAbortCheck(20);               // while failed calls end: no event marks that

/// The time for all groups to be broken and for their calls to end, by the longest limit.
milliseconds abort_limit(const std::vector<std::shared_ptr<WatchedGroup>>& groups) {
  milliseconds longest(0);
  for (const auto& group : groups) longest = std::max(longest, group->limit());
  return limit_of_abort(longest);
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
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  for (std::thread& thread : abort_threads_) thread.join();
}

void Watchdog::add(const std::shared_ptr<WatchedGroup>& group) {
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

void Watchdog::check_by(Time when) {
  if (when >= next_check_.load()) return;
  const std::lock_guard lock(mutex_);
  if (when >= next_check_.load()) return;
  next_check_ = when;
  changed_.notify_all();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_ || abort_) {
    const Time until = abort_ ? steady_clock::now() + kAbortCheck : next_check_.load();
    if (until == Time::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, until);
    }
    lock.unlock();
    if (next_check_.load() <= steady_clock::now()) check_groups();
    check_abort();
    lock.lock();
  }
}

void Watchdog::check_groups() {
  {
    const std::lock_guard lock(mutex_);
    next_check_ = Time::max();  // a call that begins from now on sets it again
  }
  Time next = Time::max();
  for (const auto& group : groups()) {
    const Time now = steady_clock::now();
    next = std::min(next, group->check_calls(now));
    const auto late = group->find_timed_out(now);
    if (!late) continue;
    enter_abort("ddp: a call timed out after " + name_time(late->limit) + ": " +
                describe(late->call) + group->blame_store());
    // The groups as of now, as in on_failure(): another rank may end the call meanwhile.
    start_thread([this, all = groups(), group, late = *late] {
      break_groups(all, group->agree_on_timeout(late));
    });
  }
  check_by(next);
}

void Watchdog::on_broadcast(const GroupContext& joined, const std::string& prefix) {
  enter_abort("ddp: another rank reported a failure");
  const Groups all = groups();
  AgreedError agreed;
  try {
    for (const auto& group : all) {
      if (group->prefix() != prefix) continue;
      group->check_calls(steady_clock::now());  // a call may have ended that nobody has waited for
      group->publish_status();
    }
    agreed = wait_for_agreed_error(*joined.store, prefix, kAgreementLimit);
  } catch (const Error& error) {
    agreed = without_store(joined, "another rank reported a failure, and its cause cannot be read",
                           error);
  }
  break_groups(all, agreed);
}

void Watchdog::on_loss(int lost, const std::string& sentence) {
  enter_abort("ddp: " + sentence);
  ErrorFacts facts;
  if (lost >= 0) facts.lost = {lost};
  break_groups(groups(), {.kind = ErrorKind::peer_lost, .sentence = sentence, .facts = facts});
}

void Watchdog::on_failure(const std::shared_ptr<WatchedGroup>& group, const Error& error) {
  enter_abort(error.what());
  // The groups as of now, not those that the program makes after it has caught the error. All get
  // the error before: because of it the program may leave them, and their other ranks then ask for
  // the cause.
  const Groups all = groups();
  fail_groups(all, group->agree_on_failure(error));
  start_thread([this, all] { abort_groups(all); });
}

void Watchdog::on_failure_async(const std::shared_ptr<WatchedGroup>& group, const Error& error) {
  enter_abort(error.what());
  start_thread(
      [this, all = groups(), group, error] { break_groups(all, group->agree_on_failure(error)); });
}

/// Runs `work` in this thread if none can be started.
void Watchdog::start_thread(const std::function<void()>& work) {
  try {
    const std::lock_guard lock(mutex_);
    abort_threads_.push_back(signal_masked_thread(work));
  } catch (const Error&) {
    work();
  }
}

void Watchdog::break_groups(const Groups& groups, const AgreedError& agreed) {
  fail_groups(groups, agreed);
  abort_groups(groups);
}

void Watchdog::fail_groups(const Groups& groups, const AgreedError& agreed) {
  {
    const std::lock_guard lock(mutex_);
    abort_->reason = "ddp: " + agreed.sentence;
  }
  std::vector<std::thread> threads;  // each makes a request to the store
  for (const auto& group : groups) {
    try {
      threads.push_back(signal_masked_thread([&agreed, group] { group->break_with(agreed); }));
    } catch (const Error&) {  // none can be started
      group->break_with(agreed);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

void Watchdog::abort_groups(const Groups& groups) {
  abort_together([&] {
    for (const auto& group : groups) group->abort();
  });
  leave_abort();
}

void Watchdog::enter_abort(const std::string& reason) {
  const milliseconds limit = abort_limit(groups());
  const std::lock_guard lock(mutex_);
  if (!abort_) abort_ = {reason, limit, steady_clock::now() + limit, 0};
  ++abort_->threads;
  changed_.notify_all();
}

void Watchdog::leave_abort() {
  const std::lock_guard lock(mutex_);
  --abort_->threads;
}

void Watchdog::check_abort() {
  std::optional<Abort> abort;
  {
    const std::lock_guard lock(mutex_);
    abort = abort_;
  }
  if (!abort) return;
  if (abort->threads == 0 && std::ranges::none_of(groups(), [](const auto& group) {
        group->check_calls(steady_clock::now());
        return group->has_failed_calls();
      })) {
    const std::lock_guard lock(mutex_);
    if (abort_->threads == 0) abort_.reset();
    return;
  }
  if (steady_clock::now() < abort->deadline) return;
  end_process(abort->reason + ". Its calls did not end within another " + name_time(abort->limit) +
              ": ending the process");
}

}  // namespace ddp::internal
