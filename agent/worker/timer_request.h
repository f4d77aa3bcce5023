// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The timers that workers set by PyTorch's FileTimerClient. Pure.

namespace ddprun::agent {

/// A countdown that a process has started, or, without an end, has stopped.
struct TimerRequest {
  using Time = std::chrono::system_clock::time_point;  ///< clients send time.time() of Python

  int pid = 0;
  std::string scope;        ///< which of the process's timers
  std::optional<Time> end;  ///< nullopt: the timer is released
  int signal = 0;           ///< for the process at that time; 0 or less: none
};

/// No request is longer: a client's write is atomic up to PIPE_BUF.
constexpr std::size_t kLongestRequest = 4096;

/// A line of the pipe: {"version": 1, "pid": 7, "scope_id": "a", "expiration_time": 1.5e9,
/// "signal": 9}; a negative time releases. nullopt: it is none.
std::optional<TimerRequest> parse_timer_request(std::string_view line);

/// The timers that run.
class TimerTable {
 public:
  /// Of more timers the later ones are not kept: as many as a thousand workers need.
  static constexpr std::size_t kMost = 16'384;

  void add(const TimerRequest& request);
  void clear() { timers_.clear(); }

  /// When the first one ends; nullopt: there is none.
  std::optional<TimerRequest::Time> next() const;

  /// Takes out the timers that have ended at `now`, with all others of their processes, and
  /// returns for each process the first with a signal, in the order of their ends.
  std::vector<TimerRequest> take_expired(TimerRequest::Time now);

 private:
  std::map<std::pair<int, std::string>, TimerRequest> timers_;
};

}  // namespace ddprun::agent
