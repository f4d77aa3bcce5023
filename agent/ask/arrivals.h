// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// When ranks arrive at the collective calls of their groups, and the rank for which the others wait
// again and again. Times are microseconds since the epoch. Pure.

namespace ddprun::agent::ask {

/// The last calls that a rank has begun in a group.
struct RankCalls {
  int rank = 0;
  std::uint64_t group = 0;          ///< the same on all ranks of the group
  int members = 0;                  ///< ranks of the group, on all nodes
  std::uint64_t begun = 0;          ///< number of the last call
  std::vector<std::int64_t> times;  ///< when it began them; the last is of `begun`
};

/// The rank of a node that arrived last at a call.
struct LastArrival {
  int rank = 0;
  std::int64_t at = 0;
  std::optional<std::int64_t> before;  ///< when the one before it arrived; nullopt: it is alone
};

/// The arrivals at the last calls of a group that all its ranks on a node have begun.
struct GroupArrivals {
  std::uint64_t group = 0;
  int members = 0;          ///< ranks of the group, on all nodes
  std::vector<int> ranks;   ///< those on this node
  std::uint64_t first = 0;  ///< number of the first call
  std::vector<LastArrival> calls;
};

/// The most groups of a node, and the most calls of each.
inline constexpr std::size_t kMostArrivalGroups = 4;
inline constexpr std::size_t kMostArrivals = 257;

/// The arrivals in the groups of a node, those with most ranks first.
std::vector<GroupArrivals> arrivals_of(const std::vector<RankCalls>& calls);

/// The interval within which something happened, by one clock.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// How much a node's clock is ahead of another one, and how wrong that may be.
struct ClockShift {
  std::int64_t ahead = 0;
  std::int64_t error = 0;
};

/// `here` is from a question to its answer by the asker's clock, and `there` the part of it that
/// the node took, by its own clock. nullopt: a clock was set meanwhile.
std::optional<ClockShift> clock_shift(Interval here, Interval there);

/// The arrivals of a node's ranks, and its clock against the one that counts.
struct NodeArrivals {
  std::vector<GroupArrivals> groups;
  ClockShift clock{};
};

/// The rank for which all others of a group wait again and again.
struct SlowRank {
  int rank = 0;
  double waited = 0;   ///< seconds for which only this rank was missing
  double seconds = 0;  ///< in this time
  int last = 0;        ///< the number of calls at which it arrived last
  int calls = 0;       ///< the number of calls in this time
};

/// nullopt: there is none, or it cannot be known, such as when a node of the group is missing.
/// If the clocks of nodes differ by an unknown part of the wait, this part does not count.
std::optional<SlowRank> slow_rank(const std::vector<NodeArrivals>& nodes);

}  // namespace ddprun::agent::ask
