// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/arrivals.h"

#include <algorithm>
#include <functional>

#include "tests/catch.h"

using namespace ddprun::agent::ask;

namespace {

constexpr std::int64_t kStep = 100'000;  // microseconds
constexpr int kSteps = 20;
constexpr std::int64_t kStart = 1'800'000'000'000'000;

/// How much later than the others a rank begins a call.
using Delay = std::function<std::int64_t(int rank, int call)>;

RankCalls calls_of(int rank, int members, const Delay& delay, std::uint64_t group = 7) {
  RankCalls calls{
      .rank = rank, .group = group, .members = members, .begun = 1000 + kSteps, .times = {}};
  for (int call = 1; call <= kSteps; ++call) {
    calls.times.push_back(kStart + call * kStep + delay(rank, call));
  }
  return calls;
}

/// Two ranks on each of two nodes, in one group. The clock of the second node is `ahead`.
std::vector<NodeArrivals> two_nodes(const Delay& delay, ClockShift clock = {}) {
  std::vector<RankCalls> second = {calls_of(2, 4, delay), calls_of(3, 4, delay)};
  for (RankCalls& rank : second) {
    for (std::int64_t& time : rank.times) time += clock.ahead;
  }
  return {{.groups = arrivals_of({calls_of(0, 4, delay), calls_of(1, 4, delay)})},
          {.groups = arrivals_of(second), .clock = clock}};
}

int slow_of(const std::vector<NodeArrivals>& nodes) {
  const auto slow = slow_rank(nodes);
  return slow ? slow->rank : -1;
}

std::int64_t third_is_late(int rank, int) {
  return rank == 3 ? 40'000 : rank * 10;
}

}  // namespace

TEST_CASE(
    "arrivals: the rank that is last again and again is slow, by the time the others waited") {
  const auto slow = slow_rank(two_nodes(third_is_late));
  REQUIRE(slow);
  CHECK((slow->rank == 3 && slow->last == kSteps - 1 && slow->calls == kSteps - 1));
  CHECK(slow->waited == Approx(19 * 0.03998));
  CHECK(slow->seconds == Approx(1.9));
}

TEST_CASE("arrivals: the clocks of the hosts may differ") {
  CHECK(slow_of(two_nodes(third_is_late, {.ahead = 3'600'000'000})) == 3);
  CHECK(slow_of(two_nodes(third_is_late, {.ahead = -3'600'000'000, .error = 1'000})) == 3);
  // Without the shift rank 2 or 3 would be the last.
  const auto first_is_late = [](int rank, int) { return rank == 0 ? 40'000 : rank * 10; };
  CHECK(slow_of(two_nodes(first_is_late, {.ahead = 3'600'000'000})) == 0);
}

TEST_CASE("arrivals: a wait that may be the error of a clock does not count") {
  const auto node_is_late = [](int rank, int) { return rank >= 2 ? 40'000 + rank : rank; };
  CHECK(slow_of(two_nodes(node_is_late, {.ahead = 5, .error = 50'000})) == -1);
  CHECK(slow_of(two_nodes(third_is_late, {.ahead = 5, .error = 50'000})) == -1);
}

TEST_CASE("arrivals: three long pauses, and ranks that are late in turn, are no slow rank") {
  const auto pauses = [](int count) {
    return two_nodes([count](int rank, int call) {
      return rank == 1 && call % 5 == 0 && call <= 5 * count ? 600'000 : rank * 10;
    });
  };
  CHECK(slow_of(pauses(3)) == -1);
  CHECK(slow_of(pauses(4)) == 1);
  CHECK(slow_of(two_nodes([](int rank, int call) { return rank == call % 4 ? 40'000 : 0; })) == -1);
  CHECK(slow_of(two_nodes([](int, int) { return 0; })) == -1);
  CHECK(slow_of(two_nodes([](int rank, int) { return rank == 3 ? 5'000 : 0; })) == -1);
}

TEST_CASE("arrivals: a time in which several calls wait for a rank counts once") {
  // Each second call follows the one before at once.
  const auto buckets = [](int rank, int call) {
    return (call % 2 == 0 ? -kStep + 10 : 0) + (rank == 3 ? 40'000 : 0);
  };
  const auto slow = slow_rank(two_nodes(buckets));
  REQUIRE(slow);
  CHECK((slow->rank == 3 && slow->last == kSteps - 1));
  CHECK(slow->waited < 0.5);
}

TEST_CASE("arrivals: no rank is named if one of the group is unknown") {
  auto nodes = two_nodes(third_is_late);
  nodes.pop_back();
  CHECK(slow_of(nodes) == -1);
  CHECK(slow_of({}) == -1);
  CHECK(arrivals_of({calls_of(0, 1, third_is_late)}).empty());
  CHECK(arrivals_of({RankCalls{.rank = 0, .group = 7, .members = 2, .begun = 9, .times = {}}})
            .empty());
}

TEST_CASE("arrivals: ranks of a node that have begun different calls are compared in common ones") {
  RankCalls ahead = calls_of(1, 2, third_is_late);
  ++ahead.begun;
  ahead.times.push_back(ahead.times.back() + kStep);
  ahead.times.erase(ahead.times.begin(), ahead.times.begin() + 4);
  const auto groups = arrivals_of({calls_of(0, 2, third_is_late), ahead});
  REQUIRE(groups.size() == 1);
  CHECK((groups[0].first == 1005 && groups[0].calls.size() == kSteps - 4));
  CHECK(groups[0].calls.back().rank == 1);
  CHECK(*groups[0].calls.back().before == kStart + kSteps * kStep);
  ahead.begun += 100;
  CHECK(arrivals_of({calls_of(0, 2, third_is_late), ahead}).empty());
}

TEST_CASE("arrivals: a rank that is late because it waits in another group is not the slow one") {
  // Rank 3 is slow, and keeps rank 2, with which it forms a pair. Ranks 0 and 2 form a group, and 1
  // and 3.
  const auto pair_is_late = [](int rank, int) { return rank >= 2 ? 40'000 : 0; };
  std::vector<RankCalls> calls;
  for (const int rank : {2, 3}) calls.push_back(calls_of(rank, 2, third_is_late, 1));
  for (const int rank : {0, 1}) calls.push_back(calls_of(rank, 2, [](int, int) { return 0; }, 2));
  for (const int rank : {0, 2}) calls.push_back(calls_of(rank, 2, pair_is_late, 3));
  for (const int rank : {1, 3}) calls.push_back(calls_of(rank, 2, pair_is_late, 4));
  CHECK(slow_of({{.groups = arrivals_of(calls)}}) == 3);
}

TEST_CASE("arrivals: a node has few groups, those with most of its ranks") {
  std::vector<RankCalls> calls;
  for (int rank = 0; rank < 9; ++rank) {
    calls.push_back(calls_of(rank, 9, third_is_late, 100));
    calls.push_back(calls_of(rank, 2, third_is_late, static_cast<std::uint64_t>(rank)));
  }
  const auto groups = arrivals_of(calls);
  REQUIRE(groups.size() == kMostArrivalGroups);
  CHECK((groups[0].group == 100 && groups[0].ranks.size() == 9));
}

TEST_CASE("the shift of a clock is known to half the time that question and answer took") {
  const auto shift = clock_shift({1'000, 1'100}, {5'040, 5'060});
  REQUIRE(shift);
  CHECK((shift->ahead == 4'000 && shift->error == 40));
  CHECK(!clock_shift({1'000, 1'100}, {5'000, 5'200}));
}
