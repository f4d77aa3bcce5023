// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/call_order.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace ddprun::rendezvous {
namespace {

// Counts all nodes' groups: a hostile node could make up any number.
constexpr size_t kMostCountedGroups = 4'096;

using Behind = CallOrder::Behind;

template <class Which>
std::vector<int> ranks_where(const std::vector<CallPlace>& group, Which is_one) {
  std::vector<int> ranks;
  for (const CallPlace& place : group) {
    if (is_one(place)) ranks.insert(ranks.end(), place.ranks.begin(), place.ranks.end());
  }
  return ranks;
}

/// The oldest call in which a rank waits; 0: none does.
std::uint64_t oldest_open(const std::vector<CallPlace>& group) {
  std::uint64_t oldest = 0;
  for (const CallPlace& place : group) {
    if (place.open > 0 && (oldest == 0 || place.open < oldest)) oldest = place.open;
  }
  return oldest;
}

using Classes = std::map<std::string, std::vector<int>>;

/// The ranks by what they have made as each call that is known, by its number.
std::map<std::uint64_t, Classes> calls_of(const std::vector<CallPlace>& group) {
  std::map<std::uint64_t, Classes> calls;
  const auto add = [&calls](std::uint64_t number, const std::string& call, const CallPlace& place) {
    if (call.empty()) return;
    auto& ranks = calls[number][call];
    ranks.insert(ranks.end(), place.ranks.begin(), place.ranks.end());
  };
  for (const CallPlace& place : group) {
    const std::uint64_t count = std::min<std::uint64_t>(place.recent.size(), place.begun);
    for (std::uint64_t i = 0; i < count; ++i) {
      add(place.begun - i, place.recent[place.recent.size() - 1 - i], place);
    }
    if (place.recent.empty() && place.open > 0) add(place.open, place.shown, place);
  }
  return calls;
}

/// The first call that ranks have made differently; nullptr: none.
const Classes* first_difference(const std::map<std::uint64_t, Classes>& calls) {
  const auto found =
      std::ranges::find_if(calls, [](const auto& call) { return call.second.size() > 1; });
  return found == calls.end() ? nullptr : &found->second;
}

/// The smaller class is behind, if it is the only one.
std::optional<Behind> smaller_of(const Classes& classes) {
  if (classes.size() != 2) return std::nullopt;
  auto few = classes.begin(), many = std::next(few);
  if (few->second.size() > many->second.size()) std::swap(few, many);
  if (few->second.size() == many->second.size()) return std::nullopt;
  return Behind{few->second, many->second, many->first, few->first};
}

/// If all ranks wait, and fewer ranks in this call than in later ones, the fewer are behind.
std::optional<Behind> still_inside(const std::vector<CallPlace>& group, std::uint64_t number) {
  Behind behind = {
      ranks_where(group, [number](const CallPlace& place) { return place.open == number; }),
      ranks_where(group, [number](const CallPlace& place) { return place.open > number; }),
      {}};
  const size_t all = ranks_where(group, [](const CallPlace&) { return true; }).size();
  const bool all_wait = behind.ranks.size() + behind.waiting.size() == all &&
                        std::ranges::none_of(group, &CallPlace::failed);
  if (!all_wait || behind.ranks.size() >= behind.waiting.size()) return std::nullopt;
  const auto later =
      std::ranges::find_if(group, [number](const CallPlace& place) { return place.open > number; });
  behind.awaited = later->shown;
  return behind;
}

}  // namespace

void CallOrder::add(const CallPlace& place) {
  if (groups_.size() >= kMostCountedGroups && !groups_.contains(place.group)) return;
  groups_[place.group].push_back(place);
  if (place.open == 0) return;
  for (const int rank : place.ranks) inside_[rank].insert(place.group);
}

std::vector<int> CallOrder::missing(const Places& group, std::uint64_t number) const {
  std::vector<int> ranks =
      ranks_where(group, [number](const CallPlace& place) { return place.begun < number; });
  std::erase_if(ranks, [this](int rank) { return inside_.contains(rank); });
  return ranks;
}

std::optional<Behind> CallOrder::behind_in(const Places& group) const {
  const auto calls = calls_of(group);
  if (const Classes* const differ = first_difference(calls)) return smaller_of(*differ);
  const std::uint64_t number = oldest_open(group);
  if (number == 0) return std::nullopt;
  const auto is_missing = [number](const CallPlace& place) { return place.begun < number; };
  if (!std::ranges::any_of(group, is_missing)) return still_inside(group, number);
  const auto waits = [number](const CallPlace& place) { return place.open == number; };
  Behind behind = {.ranks = missing(group, number),
                   .waiting = ranks_where(group, waits),
                   .awaited = std::ranges::find_if(group, waits)->shown};
  if (behind.ranks.empty() || behind.ranks.size() > behind.waiting.size()) return std::nullopt;
  return behind;
}

/// Chooses the group with the most waiting ranks.
std::optional<Behind> CallOrder::behind(const std::function<bool(const Behind&)>& may_be) const {
  std::optional<Behind> found;
  for (const auto& [number, group] : groups_) {
    auto behind = behind_in(group);
    if (!behind || !may_be(*behind)) continue;
    if (!found || behind->waiting.size() > found->waiting.size()) found = std::move(behind);
  }
  return found;
}

}  // namespace ddprun::rendezvous
