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
  bool held = false;  ///< no progress is expected: a debugger holds one, or ddprun reads no output
  bool blocked = false;  ///< each is still in the same collective call: it waits for other ranks,
                         ///< whatever it writes and computes
};

/// DECIDES whether the workers of a node have stopped making progress. Pure.
///
/// A beat is a worker's own report of progress: a heartbeat, or a line that matches
/// --progress_pattern. Without beats every sign counts as progress, except `output` and `cpu` while
/// the workers are `blocked`. After the first five beats of a rank, the node has stopped if
/// - no beat and no `work` has come for the limit, whatever it writes and computes, or
/// - there was no sign at all for five times the longest pause between two beats of a rank, but at
///   least a minute; or for the user's limit, if there is one.
///
/// A reported hang is no pause, even if it ends: the next hang is reported as soon.
///
/// If this process or the whole host stood still, that says nothing about the workers: the watch
/// counts from zero again.
class HangWatch {
 public:
  using Time = BootClock::time_point;
  using Duration = BootClock::duration;

  enum class News {
    none,
    quiet,     ///< they have stopped
    busy,      ///< they only compute for twice limit(), and others may wait for them in vain
    progress,  ///< some make progress again
  };

  /// `limit` is --hang_timeout; nullopt: ten minutes, or learned from beats.
  HangWatch(std::optional<Duration> limit, Time now);

  void beat(int rank, Time now);

  /// Call it interval() after the last look. After a beat, `signs` do not matter.
  News look(const Signs& signs, Time now);
  bool has_beaten() const { return beaten_; }

  /// The time from one look to the next: a tenth of the limit.
  Duration interval() const { return interval_; }

  /// The time without progress, and the limit from which it is news.
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
  bool beaten_ = false;          ///< since the last look
  bool reported_quiet_ = false;  ///< News::quiet was the last news
  bool reported_busy_ = false;
  Duration beatless_{};  ///< the time without a beat and work
  Duration signless_{};  ///< the time without any sign
  Duration silent_{};    ///< the time without any sign but `cpu`, since News::busy
  Time looked_;
  Duration interval_;
};

}  // namespace ddprun::agent
