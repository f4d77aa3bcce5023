// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/group_context.h"
#include "collectives/backends/backend.h"
#include "collectives/call/async_call.h"
#include "collectives/failure/call_clock.h"
#include "collectives/failure/failure_broadcast.h"
#include "collectives/failure/open_calls.h"
#include "collectives/failure/watchdog.h"
#include "collectives/short_lock.h"
#include "ddp/error.h"

namespace ddp::internal {

/// The calls of this rank in one group: has them recorded and watched, and keeps the first failure,
/// which every later call throws.
///
/// Thread: any, several at once.
class GroupCalls : public WatchedGroup, public std::enable_shared_from_this<GroupCalls> {
 public:
  using CallId = OpenCalls::CallId;

  GroupCalls(GroupContext context, const std::string& backend_name);
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;

  /// From now on `watchdog` watches the calls, and may abort `backend`. `broadcast` is null if all
  /// ranks are in this process.
  void begin_watch(Backend& backend, std::shared_ptr<Watchdog> watchdog,
                   std::shared_ptr<FailureBroadcast> broadcast);
  /// Must be called before the backend is destroyed, and not in a thread of the watchdog or of the
  /// broadcast.
  void end_watch();

  /// Sets the longest time of each call that begins from now on.
  void set_limit(std::chrono::milliseconds limit);
  std::chrono::milliseconds limit() const override { return limit_; }
  const std::shared_ptr<FailureBroadcast>& broadcast() const { return broadcast_; }

  /// A call begins. Throws the failure of the group.
  CallId begin(const Task& task);

  /// A message was sent or received, in too short a time to be watched. Throws the failure of the
  /// group.
  void record(const Transfer& message, Time now);
  /// The same for a collective call.
  void record(const Task& task);

  /// A call has succeeded, or failed with what it threw, which breaks the group. fail() returns the
  /// first failure of the group. If ranks made different collective calls, it first waits, for 5 s
  /// at most, until all have published theirs or ended: then the error names the minority. If a
  /// rank is lost or leaves the group, it waits for that process's end, for 4 s at most: so a
  /// launcher first sees how that rank failed. Every function that throws the failure waits so,
  /// too.
  void succeed(CallId id);
  Error fail(CallId id, const Error& error);

  /// The call continues after the function that began it. It ends here when a Work or the watchdog
  /// notices its end.
  void set_async(CallId id, const std::shared_ptr<AsyncCall>& async);

  /// Breaks the group, and returns its first failure. A lost rank is lost to all groups: the
  /// watchdog breaks them and notifies the other ranks.
  Error fail(const Error& error);
  bool has_failed() const { return has_failed_; }
  /// Throws the first failure of the group, which has failed.
  [[noreturn]] void throw_failure();

  const std::string& prefix() const override { return context_.prefix; }
  Time check_calls(Time now) override;
  std::optional<TimedOutCall> find_timed_out(Time now) override;
  bool has_failed_calls() const override;
  void publish_status() const override;
  AgreedError agree_on_timeout(const TimedOutCall& late) override;
  AgreedError agree_on_failure(const Error& error) override;
  std::string blame_store() const override;
  void break_with(const AgreedError& agreed) override;
  void abort() noexcept override;

 private:
  std::optional<Error> set_failure(const Error& error);
  void report_failure(const Error& error);
  std::shared_ptr<Watchdog> watchdog() const;
  void close(CallId id, bool succeeded);
  void outlast_gone_rank(const Error& failure);
  Time next_check(Time now) const;
  std::map<int, std::string> fetch_statuses(std::chrono::milliseconds limit) const;
  void publish_status_in(std::uint64_t number) const;
  Error with_all_calls(const Error& error) const;

  const GroupContext context_;
  std::atomic<std::chrono::milliseconds> limit_;
  std::atomic<bool> has_failed_ = false;  // failure_ is set
  std::once_flag outlasted_;              // outlast_gone_rank() has ended

  std::mutex broadcast_mutex_;  // held while it is raised
  std::shared_ptr<FailureBroadcast> broadcast_;

  std::mutex backend_mutex_;  // held while it is aborted
  Backend* backend_ = nullptr;

  mutable ShortLock mutex_;  // protects what follows
  std::shared_ptr<Watchdog> watchdog_;
  std::optional<Error> failure_;
  bool timed_out_ = false;  // find_timed_out() has found a call
  CallClock clock_;
  OpenCalls open_;
};

}  // namespace ddp::internal
