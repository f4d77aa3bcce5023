// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/restart_budget.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"

namespace ddprun::rendezvous {
namespace {

/// Doubling ends here: a lasting failure is tried again every few minutes.
constexpr std::chrono::minutes kLongestPause{5};

}  // namespace

std::string RestartBudget::refusal(int round, Clock::duration uptime, Time now) const {
  if (spec_.max_restarts == 0) return "no restarts were asked for (--max_restarts N)";
  if (uptime < spec_.min_uptime) {
    return "not restarted: round " + std::to_string(round) + " failed " + duration_text(uptime) +
           " after its start, within --min_uptime " + duration_text(spec_.min_uptime) +
           ": it never got past its start";
  }
  if (used(now) < spec_.max_restarts) return "";
  std::string text = "no restart left (" + std::to_string(used(now)) + " of " +
                     std::to_string(spec_.max_restarts) + " used";
  if (spec_.restart_window > Clock::duration::zero())
    text += " within " + duration_text(spec_.restart_window);
  return text + ")";
}

void RestartBudget::spend(Time now) {
  add(1, now);
  pause_ = pause_after(used(now));
  pause_ends_ = now + pause_;
}

void RestartBudget::learn(int restarts, Time now) {
  if (restarts > spent_) add(restarts - spent_, now);
}

/// The restarts that count against max_restarts at `now`.
int RestartBudget::used(Time now) const {
  if (spec_.restart_window == Clock::duration::zero()) return spent_;
  const auto oldest = std::upper_bound(recent_.begin(), recent_.end(), now - spec_.restart_window);
  return static_cast<int>(recent_.end() - oldest);
}

void RestartBudget::add(int restarts, Time now) {
  spent_ += restarts;
  if (spec_.restart_window == Clock::duration::zero()) return;
  recent_.insert(recent_.end(), static_cast<size_t>(std::min(restarts, spec_.max_restarts)), now);
  while (recent_.size() > static_cast<size_t>(spec_.max_restarts)) recent_.pop_front();
}

RestartBudget::Clock::duration RestartBudget::pause_after(int restarts) const {
  const auto longest = std::max<Clock::duration>(kLongestPause, spec_.restart_backoff);
  Clock::duration pause = spec_.restart_backoff;
  // Zero stays zero, however often it doubles.
  for (int i = 1; i < restarts && pause < longest && pause > pause.zero(); ++i) pause *= 2;
  return std::min(pause, longest);
}

}  // namespace ddprun::rendezvous
