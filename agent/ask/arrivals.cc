// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/arrivals.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace ddprun::agent::ask {
namespace {

constexpr std::size_t kLeastCalls = 16;
constexpr std::size_t kEnoughCalls = 51;  // if they took kEnoughTime
constexpr std::int64_t kEnoughTime = 30'000'000;
constexpr std::int64_t kLeastShare = 10;  // one part in ten of the time
constexpr std::int64_t kOthers = 4;       // times as much as all other ranks together
constexpr std::size_t kPauses = 3;        // of a rank, which may not come again

/// The first call of which `rank` has a time, and the one after its last.
std::pair<std::uint64_t, std::uint64_t> range_of(const RankCalls& rank) {
  const std::uint64_t count = std::min<std::uint64_t>(rank.times.size(), rank.begun);
  return {rank.begun - count + 1, rank.begun + 1};
}

std::int64_t time_of(const RankCalls& rank, std::uint64_t number) {
  return rank.times[rank.times.size() - 1 - static_cast<std::size_t>(rank.begun - number)];
}

LastArrival last_of(const std::vector<const RankCalls*>& ranks, std::uint64_t number) {
  LastArrival last{
      .rank = ranks.front()->rank, .at = time_of(*ranks.front(), number), .before = {}};
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const std::int64_t at = time_of(*ranks[i], number);
    if (at > last.at) {
      last = {.rank = ranks[i]->rank, .at = at, .before = last.at};
    } else {
      last.before = std::max(last.before.value_or(at), at);
    }
  }
  return last;
}

GroupArrivals arrivals_in(const std::vector<const RankCalls*>& ranks) {
  GroupArrivals group{
      .group = ranks.front()->group, .members = ranks.front()->members, .ranks = {}, .calls = {}};
  std::uint64_t end = UINT64_MAX;
  for (const RankCalls* rank : ranks) {
    const auto [from, to] = range_of(*rank);
    group.ranks.push_back(rank->rank);
    group.first = std::max(group.first, from);
    end = std::min(end, to);
  }
  if (end > group.first + kMostArrivals) group.first = end - kMostArrivals;
  for (std::uint64_t number = group.first; number < end; ++number) {
    group.calls.push_back(last_of(ranks, number));
  }
  return group;
}

/// A node's part of a group.
struct Part {
  const GroupArrivals* group;
  ClockShift clock;
};

/// The last rank of all to arrive at a call, and since when it alone was missing for certain, by
/// the asker's clock.
struct LastOfAll {
  int rank = 0;
  std::int64_t at = 0;
  std::int64_t since = 0;
};

LastOfAll last_of_all(const std::vector<Part>& parts, std::uint64_t number) {
  const auto arrival = [number](const Part& part) -> const LastArrival& {
    return part.group->calls[static_cast<std::size_t>(number - part.group->first)];
  };
  const auto when = [&arrival](const Part& part) { return arrival(part).at - part.clock.ahead; };
  const auto latest = std::ranges::max_element(parts, {}, when);
  const LastArrival& last = arrival(*latest);
  std::int64_t since = INT64_MIN;
  if (last.before) since = *last.before - latest->clock.ahead;
  for (const Part& part : parts) {
    if (&part == &*latest) continue;
    since = std::max(since, when(part) + part.clock.error + latest->clock.error);
  }
  return {.rank = last.rank, .at = when(*latest), .since = since};
}

/// The times for which a rank alone was missing.
struct Missing {
  std::vector<std::int64_t> waits;
  int last = 0;

  std::int64_t all() const { return std::accumulate(waits.begin(), waits.end(), std::int64_t{0}); }

  /// Without the longest.
  std::int64_t again() const {
    std::vector<std::int64_t> sorted = waits;
    std::ranges::sort(sorted);
    sorted.resize(sorted.size() - std::min(sorted.size(), kPauses));
    return std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0});
  }
};

/// The last calls of a group that all its ranks have begun.
std::vector<LastOfAll> last_calls(const std::vector<Part>& parts) {
  std::uint64_t first = 0, number = UINT64_MAX;
  for (const Part& part : parts) {
    first = std::max(first, part.group->first);
    number = std::min(number, part.group->first + part.group->calls.size());
  }
  std::vector<LastOfAll> calls;
  while (number > first) {
    calls.push_back(last_of_all(parts, --number));
    const bool took_long = calls.front().at - calls.back().at >= kEnoughTime;
    if (took_long && calls.size() >= kEnoughCalls) break;
  }
  std::ranges::reverse(calls);
  return calls;
}

/// If several calls are under way at the same time, as for the buckets of DDP, a time counts once.
std::optional<SlowRank> slow_in(const std::vector<LastOfAll>& calls) {
  if (calls.size() < kLeastCalls) return std::nullopt;
  std::map<int, Missing> missing;
  const std::int64_t begin = calls.front().at;
  std::int64_t counted = begin;
  for (auto call = calls.begin() + 1; call != calls.end(); ++call) {
    Missing& rank = missing[call->rank];
    rank.waits.push_back(std::max<std::int64_t>(call->at - std::max(call->since, counted), 0));
    rank.last += call->at > call->since ? 1 : 0;
    counted = std::max(counted, call->at);
  }
  const auto again = [](const auto& rank) { return rank.second.again(); };
  const auto slow = std::ranges::max_element(missing, {}, again);
  std::int64_t others = 0;
  for (const auto& rank : missing) others += rank.first == slow->first ? 0 : again(rank);
  const std::int64_t wait = again(*slow), time = counted - begin;
  if (wait <= 0 || wait * kLeastShare < time || wait < others * kOthers) return std::nullopt;
  return SlowRank{.rank = slow->first,
                  .waited = static_cast<double>(slow->second.all()) / 1e6,
                  .seconds = static_cast<double>(time) / 1e6,
                  .last = slow->second.last,
                  .calls = static_cast<int>(calls.size()) - 1};
}

/// A group's slow rank, and the ranks that may have waited for it.
struct Verdict {
  SlowRank slow;
  std::vector<int> ranks;
};

std::optional<Verdict> verdict_of(const std::vector<Part>& parts) {
  std::vector<int> ranks;
  for (const Part& part : parts) {
    ranks.insert(ranks.end(), part.group->ranks.begin(), part.group->ranks.end());
  }
  const int members = parts.front().group->members;
  if (ranks.size() < 2 || ranks.size() != static_cast<std::size_t>(members)) return std::nullopt;
  const auto slow = slow_in(last_calls(parts));
  if (!slow) return std::nullopt;
  return Verdict{.slow = *slow, .ranks = std::move(ranks)};
}

/// Whether the slow rank itself waits for another one, in another group.
bool waits(const Verdict& verdict, const std::vector<Verdict>& all) {
  return std::ranges::any_of(all, [&verdict](const Verdict& other) {
    return other.slow.rank != verdict.slow.rank &&
           std::ranges::find(other.ranks, verdict.slow.rank) != other.ranks.end();
  });
}

}  // namespace

std::vector<GroupArrivals> arrivals_of(const std::vector<RankCalls>& calls) {
  std::map<std::uint64_t, std::vector<const RankCalls*>> ranks;
  for (const RankCalls& each : calls) {
    if (each.members > 1) ranks[each.group].push_back(&each);
  }
  std::vector<GroupArrivals> groups;
  for (const auto& [group, its] : ranks) {
    groups.push_back(arrivals_in(its));
    if (groups.back().calls.size() < kLeastCalls) groups.pop_back();
  }
  std::ranges::stable_sort(groups, std::ranges::greater{},
                           [](const GroupArrivals& group) { return group.ranks.size(); });
  if (groups.size() > kMostArrivalGroups) groups.resize(kMostArrivalGroups);
  return groups;
}

std::optional<ClockShift> clock_shift(Interval here, Interval there) {
  const std::int64_t least = there.end - here.end;  // if the answer took no time to come here
  const std::int64_t most = there.begin - here.begin;
  if (most < least) return std::nullopt;
  return ClockShift{.ahead = least + (most - least) / 2, .error = (most - least + 1) / 2};
}

std::optional<SlowRank> slow_rank(const std::vector<NodeArrivals>& nodes) {
  std::map<std::uint64_t, std::vector<Part>> groups;
  for (const NodeArrivals& node : nodes) {
    for (const GroupArrivals& group : node.groups)
      groups[group.group].push_back({&group, node.clock});
  }
  std::vector<Verdict> verdicts;
  for (const auto& [group, parts] : groups) {
    if (auto verdict = verdict_of(parts)) verdicts.push_back(std::move(*verdict));
  }
  std::optional<SlowRank> slow;
  for (const Verdict& verdict : verdicts) {
    if (waits(verdict, verdicts)) continue;
    if (slow && slow->rank != verdict.slow.rank) return std::nullopt;
    if (!slow || slow->waited < verdict.slow.waited) slow = verdict.slow;
  }
  return slow;
}

}  // namespace ddprun::agent::ask
