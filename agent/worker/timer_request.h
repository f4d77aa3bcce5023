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

/// A countdown that a process starts, or stops if `end` is nullopt.
struct TimerRequest {
  using Time = std::chrono::system_clock::time_point;  ///< clients send time.time() of Python

  int pid = 0;
  std::string scope;        ///< which of the process's timers
  std::optional<Time> end;  ///< nullopt: releases the timer
  int signal = 0;           ///< for the process at that time; 0 or less: none
};

/// No request is longer: a client's write is atomic up to PIPE_BUF.
constexpr std::size_t kLongestRequest = 4096;

/// Parses a line of the pipe: {"version": 1, "pid": 7, "scope_id": "a", "expiration_time": 1.5e9,
/// "signal": 9}. A negative time releases the timer. nullopt: it is no request.
std::optional<TimerRequest> parse_timer_request(std::string_view line);

/// The running timers.
class TimerTable {
 public:
  /// Enough for a thousand workers. Further timers are ignored.
  static constexpr std::size_t kMost = 16'384;

  void add(const TimerRequest& request);
  void clear() { timers_.clear(); }

  /// The time at which the first timer ends; nullopt: no timer runs.
  std::optional<TimerRequest::Time> next() const;

  /// Removes the timers that have ended at `now`, and all others of their processes. Returns each
  /// process's first ended timer with a signal, in the order of their ends.
  std::vector<TimerRequest> take_expired(TimerRequest::Time now);

 private:
  std::map<std::pair<int, std::string>, TimerRequest> timers_;
};

}  // namespace ddprun::agent
