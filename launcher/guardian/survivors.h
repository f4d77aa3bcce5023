// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/kernel/descendants.h"

namespace ddprun::launcher {

/// A process that SIGKILL has not ended yet, and possible reasons.
struct Survivor {
  Descendant process;
  bool may_signal = true;   ///< this process may send signals to it
  uid_t user = 0;           ///< its user
  bool frozen = false;      ///< by its control group
  bool sleeping = false;    ///< a thread is in uninterruptible sleep
  pid_t tracer = 0;         ///< holds a thread of it; 0: no tracer
  std::string tracer_name;  ///< empty: unknown
};

/// "pid 7 (dd) is in uninterruptible sleep (D)".
std::string survivor_text(const Survivor& survivor);

// Lists name the first eight processes.

/// "pid 7 (sh), pid 8 (sleep)".
std::string names_text(const std::vector<Descendant>& processes);

/// Why these descendants still live. Reads /proc.
std::string survivors_text(const std::vector<Descendant>& left);

/// Names those of these processes that this process may not signal, and their users; empty: none.
std::string refusal_text(std::vector<Descendant> processes);

/// Reports a wait for the end of descendants that got SIGKILL, in a process without an event loop.
/// Reports after 5 s, and each time the wait has doubled, why they still live, and at last that
/// they have ended.
class SurvivorWait {
 public:
  using Clock = std::chrono::steady_clock;
  using Report = std::function<void(const std::string& sentence)>;

  explicit SurvivorWait(Report report) : report_(std::move(report)) {}

  /// A second call changes nothing.
  void begin();

  /// The time until report_if_due() has something to do; a day at most.
  std::chrono::milliseconds time_left() const;

  void report_if_due();

  /// Call when they have ended.
  void end();

 private:
  const Report report_;
  Clock::time_point began_ = Clock::time_point::max();
  std::chrono::seconds next_{5};
};

}  // namespace ddprun::launcher
