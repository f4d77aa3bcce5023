// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/timer_request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/json.h"

namespace ddprun::agent {
namespace {

using Time = TimerRequest::Time;

/// Later ends become this one, in the year 2255: the clock ends in 2262.
constexpr double kLatest = 9e9;

template <class T>
std::optional<T> number_of(const Json& json, const char* name) {
  const auto value = json.find(name);
  if (value == json.end() || !value->is_number()) return std::nullopt;
  const double number = value->get<double>();
  if constexpr (std::is_integral_v<T>) {
    const bool fits = value->is_number_integer() &&
                      number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                      number <= static_cast<double>(std::numeric_limits<T>::max());
    if (!fits) return std::nullopt;
  }
  return static_cast<T>(number);
}

std::optional<Time> end_of(double seconds) {
  if (seconds < 0) return std::nullopt;
  const std::chrono::duration<double> since_1970(std::min(seconds, kLatest));
  return Time(std::chrono::duration_cast<Time::duration>(since_1970));
}

}  // namespace

std::optional<TimerRequest> parse_timer_request(std::string_view line) {
  if (line.size() > kLongestRequest) return std::nullopt;
  const auto json = parse_bounded(line);
  if (!json.is_object()) return std::nullopt;
  const auto pid = number_of<int>(json, "pid");
  const auto signal = number_of<int>(json, "signal");
  const auto end = number_of<double>(json, "expiration_time");
  const auto scope = json.find("scope_id");
  const bool is_whole = pid && signal && end && scope != json.end() && scope->is_string();
  if (!is_whole || *pid <= 0) return std::nullopt;
  return TimerRequest{*pid, scope->get<std::string>(), end_of(*end), *signal};
}

void TimerTable::add(const TimerRequest& request) {
  const std::pair key(request.pid, request.scope);
  if (!request.end) {
    timers_.erase(key);
  } else if (timers_.size() < kMost || timers_.contains(key)) {
    timers_[key] = request;
  }
}

std::optional<Time> TimerTable::next() const {
  std::optional<Time> first;
  for (const auto& [key, timer] : timers_) first = std::min(first.value_or(*timer.end), *timer.end);
  return first;
}

std::vector<TimerRequest> TimerTable::take_expired(Time now) {
  std::vector<TimerRequest> expired;
  for (const auto& [key, timer] : timers_) {
    if (*timer.end <= now) expired.push_back(timer);
  }
  std::sort(expired.begin(), expired.end(),
            [](const TimerRequest& a, const TimerRequest& b) { return a.end < b.end; });
  std::set<int> pids;
  for (const TimerRequest& timer : expired) pids.insert(timer.pid);
  std::erase_if(timers_, [&](const auto& timer) { return pids.contains(timer.first.first); });
  std::erase_if(expired, [&](const TimerRequest& timer) {
    return timer.signal <= 0 || pids.erase(timer.pid) == 0;
  });
  return expired;
}

}  // namespace ddprun::agent
