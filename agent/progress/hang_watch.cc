// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/hang_watch.h"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr HangWatch::Duration kUsualLimit = std::chrono::minutes(10);
constexpr HangWatch::Duration kLeastLearned = std::chrono::minutes(1);
constexpr HangWatch::Duration kMostLearned = std::chrono::hours(24);
constexpr int kPauses = 5;      // the longest one so far is not the longest one ever
constexpr int kFirstBeats = 5;  // until then a program compiles, and fills its caches
constexpr int kLooks = 10;      // within a limit

/// The limits for which workers may only compute. If all have stopped instead, that is known by
/// then: a look at their stacks would interrupt the time for which they have stood still.
constexpr int kComputing = 2;

constexpr std::chrono::milliseconds kLeastInterval{50};

/// The most by which a busy machine delays a look; a host that stood still delays it more.
constexpr std::chrono::seconds kLate{5};

}  // namespace

HangWatch::HangWatch(std::optional<Duration> limit, Time now)
    : given_(limit), looked_(now), interval_(next_interval()) {}

bool HangWatch::stood_still(Time now) const {
  return now - looked_ > std::max<Duration>(2 * interval_, interval_ + kLate);
}

void HangWatch::restart() {
  beatless_ = signless_ = silent_ = Duration::zero();
  for (auto& [number, rank] : ranks_) rank.last.reset();
}

void HangWatch::beat(int rank, Time now) {
  if (stood_still(now)) restart();
  Rank& known = ranks_[rank];
  if (known.last && known.beats > kFirstBeats && !reported_quiet_) {
    known.longest_pause = std::max(known.longest_pause, now - *known.last);
  }
  known.last = now;
  ++known.beats;
  beaten_ = true;
}

HangWatch::News HangWatch::look(const Signs& signs, Time now) {
  const bool still = stood_still(now);
  if (still && !reported_quiet_) restart();
  // A late look counts no more than one in time.
  const Duration since = now - std::exchange(looked_, now);
  const Duration step = still ? Duration::zero() : std::min(since, interval_);
  const bool held =
      signs.held && !reported_quiet_;  // a debugger may have come to see why they are quiet
  const bool worked = std::exchange(beaten_, false) || signs.work || held;
  beatless_ = worked ? Duration::zero() : beatless_ + step;
  const bool active = (signs.cpu || signs.output) && !signs.blocked;
  signless_ = worked || active ? Duration::zero() : signless_ + step;
  silent_ = worked || (signs.output && !signs.blocked) ? Duration::zero() : silent_ + step;
  interval_ = next_interval();
  const bool over = (reported_quiet_ && quiet_for() == Duration::zero()) ||
                    (reported_busy_ && silent_ == Duration::zero() && step > Duration::zero());
  if (over) return restart(), reported_quiet_ = reported_busy_ = false, News::progress;
  if (reported_quiet_) return News::none;
  if (is_quiet()) return reported_quiet_ = true, News::quiet;
  if (is_steady() || silent_ < kComputing * limit()) return News::none;
  return silent_ = Duration::zero(), reported_busy_ = true, News::busy;
}

bool HangWatch::is_steady() const {
  return std::ranges::any_of(ranks_, [](auto& rank) { return rank.second.beats > kFirstBeats; });
}

HangWatch::Duration HangWatch::limit() const {
  if (given_) return *given_;
  if (!is_steady()) return kUsualLimit;
  Duration longest{};
  for (const auto& [number, rank] : ranks_) longest = std::max(longest, rank.longest_pause);
  return std::clamp(kPauses * longest, kLeastLearned, kMostLearned);
}

bool HangWatch::is_quiet() const {
  if (signless_ >= limit()) return true;
  const Duration longest = given_ ? *given_ : std::max(limit(), kUsualLimit);
  return is_steady() && beatless_ >= longest;
}

HangWatch::Duration HangWatch::next_interval() const {
  return std::max<Duration>(limit() / kLooks, kLeastInterval);
}

}  // namespace ddprun::agent
