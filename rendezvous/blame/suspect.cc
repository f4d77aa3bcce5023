// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/suspect.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "base/text.h"
#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

using Kind = WorkerPlace::Kind;

constexpr size_t kMostGroups = 64;      // of all nodes: a hostile one could make up any number
constexpr size_t kMostStallLines = 8;   // a message takes no more than 4 KiB
constexpr size_t kMostRunsOfRanks = 8;  // of a list of ranks
constexpr size_t kLongestPlace = 160;   // in bytes; another node wrote it
constexpr std::string_view kIn = "in ";

std::string ranks_of(const std::vector<int>& ranks) {
  return ranks_text(ranks, kMostRunsOfRanks);
}

std::string seconds_text(double seconds) {
  const std::chrono::duration<double> duration(seconds);
  return duration_text(std::chrono::duration_cast<std::chrono::nanoseconds>(duration));
}

std::string one_line(const std::string& text) {
  std::string line = cut(printable(text), kLongestPlace);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

/// "asleep (clock_nanosleep) for 612 s".
std::string place_text(const WorkerPlace& place) {
  const std::string what = one_line(place.what);
  if (place.seconds <= 0) return what;
  const std::string time = seconds_text(place.seconds);
  return place.kind == Kind::ended ? what + " " + time + " earlier" : what + " for " + time;
}

/// "all_reduce" of "in all_reduce (train.py:88)"; empty: it shows none, or a message, or backward.
std::string collective_in(const WorkerPlace& place) {
  if (place.kind != Kind::collective || !place.what.starts_with(kIn)) return "";
  std::string name = place.what.substr(kIn.size(), place.what.find(" (") - kIn.size());
  const bool is_message = name.find("send") != name.npos || name.find("recv") != name.npos;
  return is_message || name == "backward" ? "" : name;
}

void append_all(std::vector<int>& ranks, const std::vector<int>& more) {
  ranks.insert(ranks.end(), more.begin(), more.end());
}

}  // namespace

void Suspect::add(const WorkerExits& of_node, const std::string& host, int first_rank,
                  int local_size) {
  ranks_ += local_size;
  nodes_.push_back({host, first_rank, local_size});
  const auto is_foreign = [first_rank, local_size](int rank) {
    return rank < first_rank || rank - first_rank >= local_size;
  };
  for (const FailedWorker& worker : of_node.failed) {
    if (is_foreign(worker.rank)) continue;
    if (worker.consequence) failed_waiting_.push_back(worker.rank);
    has_lost_peer_ = has_lost_peer_ || worker.lost_peer;
    has_own_cause_ = has_own_cause_ || !worker.consequence;
  }
  for (CallPlace call : of_node.calls) {
    std::erase_if(call.ranks, is_foreign);
    if (call.ranks.empty()) continue;
    calls_.add(call);
    releases_.add(call.release, call.ranks, host);
  }
  for (WorkerPlace place : of_node.places) {
    std::erase_if(place.ranks, is_foreign);
    if (!place.ranks.empty()) add_place(place, host);
  }
}

void Suspect::add_place(const WorkerPlace& place, const std::string& host) {
  auto group = std::ranges::find_if(groups_, [&place](const Group& known) {
    return known.place.kind == place.kind && known.place.what == place.what;
  });
  if (group == groups_.end()) {
    if (groups_.size() == kMostGroups) {
      has_own_cause_ = true;  // a place that is not kept could be the cause
      return;
    }
    group = groups_.insert(groups_.end(), Group{place, {host}});
  } else {
    append_all(group->place.ranks, place.ranks);
    group->place.seconds = std::min(group->place.seconds, place.seconds);
    if (std::ranges::count(group->hosts, host) == 0) group->hosts.push_back(host);
  }
}

bool Suspect::has(Kind kind) const {
  return std::ranges::count(groups_, kind, [](auto& group) { return group.place.kind; }) > 0;
}

/// A stack without a known collective may still be in one, unless the waiting ranks show theirs. A
/// rank that computes may still come, unlike one that stands still.
bool Suspect::may_be_suspect(Kind kind) const {
  if (has(Kind::stopped)) return kind == Kind::stopped;
  if (has_ended_early()) return kind == Kind::ended;
  if (has(Kind::busy)) return false;
  if (!has(Kind::collective)) return kind == Kind::elsewhere && !has(Kind::computing);
  const bool stands = has(Kind::elsewhere) || has(Kind::outside);
  return stands ? kind == Kind::elsewhere || kind == Kind::outside : kind == Kind::computing;
}

/// Others miss a rank that has ended with 0.
bool Suspect::has_ended_early() const {
  const bool all_wait = failed_waiting_.empty() && has(Kind::waiting);
  return has(Kind::ended) && (has(Kind::collective) || has_lost_peer_ || all_wait);
}

/// The smallest group that is in no collective, if it is the only one of its size.
const Suspect::Group* Suspect::stands_apart() const {
  const Group* smallest = nullptr;
  bool is_only = false;
  for (const Group& group : groups_) {
    if (!may_be_suspect(group.place.kind)) continue;
    const size_t least = smallest == nullptr ? SIZE_MAX : smallest->place.ranks.size();
    if (group.place.ranks.size() > least) continue;
    is_only = group.place.ranks.size() < least;
    smallest = &group;
  }
  return is_only ? smallest : nullptr;
}

/// The one rank that is in another collective than all others, which are in the same one. All wait,
/// and none for a rank in its own collective. Messages are not collectives.
const Suspect::Group* Suspect::waits_apart() const {
  std::map<std::string, std::vector<const Group*>> by_collective;
  size_t shown = 0;
  for (const Group& group : groups_) {
    const std::string collective = collective_in(group.place);
    if (collective.empty()) return nullptr;
    by_collective[collective].push_back(&group);
    shown += group.place.ranks.size();
  }
  if (by_collective.size() != 2 || shown != static_cast<size_t>(ranks_)) return nullptr;
  const auto is_one = [](const auto& entry) {
    return entry.second.size() == 1 && entry.second.front()->place.ranks.size() == 1;
  };
  const auto apart = std::ranges::find_if(by_collective, is_one);
  return apart == by_collective.end() || shown < 3 ? nullptr : apart->second.front();
}

/// The ranks that wait for others, or did so until they failed.
std::vector<int> Suspect::waiting() const {
  std::vector<int> waited = failed_waiting_;
  for (const Group& group : groups_) {
    const Kind kind = group.place.kind;
    const bool waits = kind == Kind::waiting || kind == Kind::collective;
    if (waits) append_all(waited, group.place.ranks);
  }
  std::ranges::sort(waited);
  waited.erase(std::unique(waited.begin(), waited.end()), waited.end());
  return waited;
}

/// nullptr: there are several, or none.
const Suspect::Group* Suspect::only_one_of(Kind kind) const {
  const auto is_of_kind = [kind](const Group& group) { return group.place.kind == kind; };
  const auto first = std::ranges::find_if(groups_, is_of_kind);
  return std::ranges::count_if(groups_, is_of_kind) == 1 ? &*first : nullptr;
}

const Suspect::Group* Suspect::named_group() const {
  if (has_own_cause_) return nullptr;
  const Group* const suspect = stands_apart();
  if (suspect == nullptr) return waits_apart();
  const size_t waited = waiting().size();
  // A rank that is stopped by a signal reaches no collective, whatever the others do.
  if (suspect->place.kind == Kind::stopped) return suspect;
  if (suspect->place.ranks.size() <= waited) return suspect;
  // The few that wait for most, which have ended, have made a call too much.
  return suspect->place.kind == Kind::ended ? only_one_of(Kind::collective) : nullptr;
}

bool Suspect::is_any_in_message(const std::vector<int>& ranks) const {
  return std::ranges::any_of(groups_, [&ranks](const Group& group) {
    const bool in_message = group.place.kind == Kind::collective &&
                            (group.place.what.find("send") != std::string::npos ||
                             group.place.what.find("recv") != std::string::npos);
    return in_message && std::ranges::any_of(group.place.ranks, [&ranks](int rank) {
             return std::ranges::count(ranks, rank) > 0;
           });
  });
}

std::optional<CallOrder::Behind> Suspect::behind() const {
  if (has_own_cause_ || has(Kind::stopped)) return std::nullopt;
  // A rank that waits for a message may wait for a rank that is in no call of this group.
  return calls_.behind([this](const CallOrder::Behind& behind) {
    const size_t all = behind.ranks.size() + behind.waiting.size();
    return !behind.made.empty() || all == static_cast<size_t>(ranks_) ||
           !is_any_in_message(behind.ranks);
  });
}

std::optional<int> Suspect::named() const {
  if (const auto late = behind()) return *std::ranges::min_element(late->ranks);
  const Group* const suspect = named_group();
  if (suspect == nullptr) return std::nullopt;
  return *std::ranges::min_element(suspect->place.ranks);
}

std::string Suspect::text() const {
  std::string text = failed_waiting_.empty() ? "" : sentence();
  if (text.empty()) text = named_;
  const std::string differ = releases_.text();
  return text.empty() || differ.empty() ? text + differ : text + "; " + differ;
}

std::string Suspect::stall_text() const {
  std::string text = sentence();
  if (text.empty()) {
    text = groups_.size() == 1 ? "no rank differs from the others"
                               : "it is unclear for which rank the others wait";
  }
  const std::string differ = releases_.text();
  if (!differ.empty()) text += "\n" + differ;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (i == kMostStallLines) return text + "\nand other groups of ranks";
    const Group& group = groups_[i];
    text += "\n" + ranks_of(group.place.ranks) + " (" + hosts_text(group.hosts) +
            "): " + place_text(group.place);
  }
  return text;
}

/// Returns "" if no rank is named.
std::string Suspect::sentence() const {
  if (const auto late = behind()) return sentence(*late);
  const Group* const suspect = named_group();
  return suspect == nullptr ? "" : sentence(*suspect);
}

/// The hosts of the ranks, each once.
std::vector<std::string> Suspect::hosts_of(const std::vector<int>& ranks) const {
  std::vector<std::string> hosts;
  for (const NodeRanks& node : nodes_) {
    const bool has_any = std::ranges::any_of(ranks, [&node](int rank) {
      return rank >= node.first_rank && rank - node.first_rank < node.local_size;
    });
    if (has_any && std::ranges::count(hosts, node.host) == 0) hosts.push_back(node.host);
  }
  return hosts;
}

/// Also says where the ranks are, if they are in one place.
std::string Suspect::sentence(const CallOrder::Behind& behind) const {
  const auto has_any = [&behind](const Group& group) {
    return std::ranges::any_of(group.place.ranks, [&behind](int rank) {
      return std::ranges::count(behind.ranks, rank) > 0;
    });
  };
  std::string what;
  for (const Group& group : groups_) {
    if (!has_any(group)) continue;
    what = what.empty() ? place_text(group.place) : "behind in its calls";
  }
  const std::string made = one_line(behind.made);
  if (what.find(made) == what.npos) what = "at " + made + (what.empty() ? "" : ", " + what);
  if (what.empty()) what = "behind in its calls";
  return ranks_of(behind.ranks) + " (" + hosts_text(hosts_of(behind.ranks)) +
         (behind.ranks.size() == 1 ? ") is" : ") are") + " the likely cause: " + what + ", while " +
         ranks_of(behind.waiting) + " waited in " + one_line(behind.awaited);
}

std::string Suspect::sentence(const Group& suspect) const {
  const WorkerPlace& place = suspect.place;
  std::vector<int> waited = waiting();
  std::erase_if(waited, [&](int rank) { return std::ranges::count(place.ranks, rank) > 0; });
  const Group* const ended = only_one_of(Kind::ended);
  std::string others;
  if (!waited.empty()) {
    others = ", while " + ranks_of(waited) + " waited" + collective_text(suspect);
  } else if (ended != nullptr && ended != &suspect) {
    others = ", while " + ranks_of(ended->place.ranks) + " had " + one_line(ended->place.what);
  }
  return ranks_of(place.ranks) + " (" + hosts_text(suspect.hosts) +
         (place.ranks.size() == 1 ? ") is" : ") are") + " the likely cause: " + place_text(place) +
         others;
}

/// " in all_reduce (train.py:88)", if all other ranks that show a collective wait there.
std::string Suspect::collective_text(const Group& suspect) const {
  std::string text;
  for (const Group& group : groups_) {
    if (group.place.kind != Kind::collective || &group == &suspect) continue;
    if (!text.empty()) return "";
    text = " " + one_line(group.place.what);
  }
  return text;
}

}  // namespace ddprun::rendezvous
