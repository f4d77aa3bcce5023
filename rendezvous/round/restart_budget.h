// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <string>

#include "base/boot_clock.h"
#include "rendezvous/spec.h"

namespace ddprun::rendezvous {

/// Whether a failed round may be tried again, and how soon: --max_restarts, its window,
/// --restart_backoff and --min_uptime. Pure.
class RestartBudget {
 public:
  using Clock = BootClock;
  using Time = Clock::time_point;

  explicit RestartBudget(const RestartSpec& spec) : spec_(spec) {}

  /// Restarts of the whole job, also those before the window.
  int spent() const { return spent_; }

  /// Why the job ends when round `round` fails `uptime` after its start: "no restart left (3 of 3
  /// used)". Empty: it may be restarted.
  std::string refusal(int round, Clock::duration uptime, Time now) const;

  /// Counts a restart, for a failure at `now`.
  void spend(Time now);

  /// A node reports `restarts` in all. The new ones of these count as spent at `now`: the time at
  /// which an earlier master spent them is unknown.
  void learn(int restarts, Time now);

  /// The pause of the next round after the last failure, and the pause's end.
  Clock::duration pause() const { return pause_; }
  Time pause_ends() const { return pause_ends_; }

 private:
  int used(Time now) const;
  void add(int restarts, Time now);
  Clock::duration pause_after(int restarts) const;

  RestartSpec spec_;
  int spent_ = 0;
  std::deque<Time> recent_;  ///< with a window: when the last ones were spent, at most max_restarts
  Clock::duration pause_{};
  Time pause_ends_ = Time::min();
};

}  // namespace ddprun::rendezvous
