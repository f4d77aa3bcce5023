// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "base/boot_clock.h"

namespace ddprun::agent {

/// Activity of a node's workers, and of all that they have started, between two looks.
struct Signs {
  bool output = false;  ///< wrote to stdout or stderr
  bool cpu = false;     ///< used a processor, as a compiler does, but also MPI while it waits
  bool work = false;    ///< read or wrote files, began or ended a process
  bool held = false;  ///< a debugger has one, or ddprun's reader has stopped: no progress expected
  bool blocked = false;  ///< each is in a collective call that has not ended since: it waits for
                         ///< other ranks, whatever it writes and computes meanwhile
};

/// DECIDES whether the workers of a node have stopped making progress. Pure.
///
/// A beat is what a worker says of its own progress: a heartbeat, or a line that matches
/// --progress_pattern. Without beats every sign counts as progress, but `output` and `cpu` of those
/// that are `blocked`. A node that sends beats regularly, which is after the first five of a rank,
/// has stopped when
/// - no beat and no `work` has come for the limit, whatever it writes and computes meanwhile, or
/// - there was no sign at all for five times the longest pause between two beats of a rank, but at
///   least a minute, unless the limit is the user's.
///
/// A reported hang is no pause, even if it ends: the next one is reported as soon.
///
/// A time in which this process or the whole host stood still says nothing of the workers: from
/// then on it counts from zero again.
class HangWatch {
 public:
  using Time = BootClock::time_point;
  using Duration = BootClock::duration;

  enum class News {
    none,
    quiet,     ///< they have stopped
    progress,  ///< some go on
  };

  /// `limit` is --hang_timeout; nullopt: ten minutes, or what beats tell.
  HangWatch(std::optional<Duration> limit, Time now);

  void beat(int rank, Time now);

  /// To be called after interval(). `signs` do not matter after a beat.
  News look(const Signs& signs, Time now);
  bool has_beaten() const { return beaten_; }

  /// From one look to the next: ten of them are the limit.
  Duration interval() const { return interval_; }

  /// How long there was no progress; how long there was none before it is news.
  Duration quiet_for() const { return is_steady() ? beatless_ : signless_; }
  Duration limit() const;

 private:
  struct Rank {
    std::optional<Time> last;
    int beats = 0;
    Duration longest_pause{};
  };

  bool stood_still(Time now) const;
  void restart();
  bool is_steady() const;
  bool is_quiet() const;
  Duration next_interval() const;

  const std::optional<Duration> given_;
  std::map<int, Rank> ranks_;
  bool beaten_ = false;  ///< since the last look
  bool told_ = false;    ///< that they are quiet
  Duration beatless_{};  ///< without a beat and work
  Duration signless_{};  ///< without anything
  Time looked_;
  Duration interval_;
};

}  // namespace ddprun::agent
