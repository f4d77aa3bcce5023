// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "collectives/agreement/agreed_error.h"
#include "collectives/failure/open_calls.h"
#include "ddp/error.h"

namespace ddp::internal {

/// A group as the Watchdog sees it. Thread: any, several at once.
class WatchedGroup {
 public:
  using Time = OpenCalls::Time;

  virtual ~WatchedGroup() = default;

  /// The prefix of the group's keys, which identifies it on all ranks.
  virtual const std::string& prefix() const = 0;

  /// How long its calls may take.
  virtual std::chrono::milliseconds limit() const = 0;

  /// Notes which calls have ended, and returns when to check again; Time::max() if no call is under
  /// way.
  virtual Time check_calls(Time now) = 0;

  /// Returns a call that has timed out; only once, and not after a failure.
  virtual std::optional<TimedOutCall> find_timed_out(Time now) = 0;

  /// Whether the group has failed and calls of it are still under way.
  virtual bool has_failed_calls() const = 0;

  /// Writes to the store at which call this rank is, for the other ranks. Throws what the store
  /// throws.
  virtual void publish_status() const = 0;

  /// Raises the broadcast and agrees with the other ranks on the error of a call that timed out,
  /// which says at which call each rank is. Does not throw: if the store is lost, the error says
  /// what this rank knows.
  virtual AgreedError agree_on_timeout(const TimedOutCall& late) = 0;

  /// The same for the group's failure.
  virtual AgreedError agree_on_failure(const Error& error) = 0;

  /// Completes the reason of a rank that ends while it waits for the store: names rank 0 if that
  /// serves it, else empty.
  virtual std::string blame_store() const = 0;

  /// Breaks the group with the agreed error, or with the group's own if it has one. Calls under way
  /// continue: abort() ends them.
  virtual void break_with(const AgreedError& agreed) = 0;
  virtual void abort() noexcept = 0;
};

}  // namespace ddp::internal
