// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/restart_budget.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"

namespace ddprun::rendezvous {
namespace {

/// Doubling ends here: whatever is broken is looked at again every few minutes.
constexpr std::chrono::minutes kLongestPause{5};

}  // namespace

RestartBudget::RestartBudget(const RoundSpec& spec)
    : max_restarts_(spec.max_restarts),
      window_(spec.restart_window),
      backoff_(spec.restart_backoff),
      min_uptime_(spec.min_uptime) {}

std::string RestartBudget::refusal(int round, Clock::duration uptime, Time now) const {
  if (max_restarts_ == 0) return "no restarts were asked for (--max_restarts N)";
  if (uptime < min_uptime_) {
    return "not restarted: round " + std::to_string(round) + " failed " + duration_text(uptime) +
           " after its start, within --min_uptime " + duration_text(min_uptime_) +
           ": it never got past its start";
  }
  if (used(now) < max_restarts_) return "";
  std::string text = "no restart left (" + std::to_string(used(now)) + " of " +
                     std::to_string(max_restarts_) + " used";
  if (window_ > Clock::duration::zero()) text += " within " + duration_text(window_);
  return text + ")";
}

void RestartBudget::spend(Time now) {
  note(1, now);
  pause_ = pause_after(used(now));
  pause_ends_ = now + pause_;
}

void RestartBudget::learn(int restarts, Time now) {
  if (restarts > spent_) note(restarts - spent_, now);
}

/// Those that count against max_restarts at `now`.
int RestartBudget::used(Time now) const {
  if (window_ == Clock::duration::zero()) return spent_;
  const auto oldest = std::upper_bound(recent_.begin(), recent_.end(), now - window_);
  return static_cast<int>(recent_.end() - oldest);
}

void RestartBudget::note(int restarts, Time now) {
  spent_ += restarts;
  if (window_ == Clock::duration::zero()) return;
  recent_.insert(recent_.end(), static_cast<size_t>(std::min(restarts, max_restarts_)), now);
  while (recent_.size() > static_cast<size_t>(max_restarts_)) recent_.pop_front();
}

RestartBudget::Clock::duration RestartBudget::pause_after(int restarts) const {
  const auto longest = std::max<Clock::duration>(kLongestPause, backoff_);
  Clock::duration pause = backoff_;
  // Zero stays zero, however often it doubles.
  for (int i = 1; i < restarts && pause < longest && pause > pause.zero(); ++i) pause *= 2;
  return std::min(pause, longest);
}

}  // namespace ddprun::rendezvous
