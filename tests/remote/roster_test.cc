// SPDX-License-Identifier: Apache-2.0
#include "remote/roster.h"

#include "tests/catch.h"

namespace ddprun::remote {
namespace {

using What = Roster::Verdict::What;
using Stop = Roster::Stop;

Roster running(size_t hosts, size_t least) {
  Roster roster(hosts, least);
  for (const size_t host : roster.start_more()) roster.is_ready(host);
  return roster;
}

TEST_CASE("at most 64 agents are started at the same time") {
  Roster roster(100, 100);
  CHECK(roster.start_more().size() == 64);
  CHECK(roster.start_more().empty());
  roster.is_ready(3);
  CHECK(roster.start_more() == std::vector<size_t>{64});
  roster.has_ended(4, std::nullopt);
  CHECK(roster.start_more().empty() == false);
}

TEST_CASE("a job that succeeded has code 0, even if a host was lost before") {
  Roster roster = running(3, 2);
  const Roster::Verdict lost = roster.has_ended(1, std::nullopt);
  CHECK(lost.what == What::lost);
  CHECK(lost.stop == Stop::none);
  CHECK(roster.has_ended(0, 0).stop == Stop::none);
  CHECK_FALSE(roster.all_ended());
  CHECK(roster.has_ended(2, 0).what == What::ended);
  CHECK(roster.all_ended());
  CHECK(roster.code() == 0);
}

TEST_CASE("a lost host stops the others at once if too few are left") {
  Roster roster = running(2, 2);
  CHECK(roster.has_ended(1, std::nullopt).stop == Stop::now);
  roster.stop();
  CHECK(roster.has_ended(0, 143).stop == Stop::none);
  CHECK(roster.code() == 125);
  CHECK(roster.lost_host());
}

TEST_CASE("an agent that does not start is treated like a lost one") {
  Roster roster(3, 2);
  roster.start_more();
  CHECK(roster.has_ended(0, 2).what == What::failed_to_start);
  CHECK(roster.has_ended(1, std::nullopt).stop == Stop::now);
  roster.stop();
  roster.has_ended(2, std::nullopt);
  CHECK(roster.code() == 125);
  CHECK_FALSE(roster.lost_host());
}

TEST_CASE("a job that failed has the code of its agents, and the last ones have time to report") {
  Roster roster = running(3, 3);
  CHECK(roster.has_ended(2, 7).stop == Stop::soon);
  CHECK(roster.has_ended(1, 7).stop == Stop::none);
  roster.has_ended(0, 7);
  CHECK(roster.code() == 7);
}

TEST_CASE("a node that was preempted does not decide the code of the others") {
  Roster roster = running(3, 1);
  CHECK(roster.has_ended(2, 143).stop == Stop::none);
  roster.has_ended(1, 9);
  roster.has_ended(0, 9);
  CHECK(roster.code() == 9);
}

TEST_CASE("a job that the user stops has the code of its agents, or else of the signal") {
  Roster roster = running(2, 2);
  roster.stop(130);
  roster.has_ended(0, 130);
  roster.has_ended(1, std::nullopt);
  CHECK(roster.code() == 130);

  Roster starting(70, 70);
  starting.start_more();
  starting.stop(143);
  CHECK(starting.start_more().empty());
  for (size_t host = 0; host < 64; ++host) starting.has_ended(host, std::nullopt);
  CHECK(starting.all_ended());
  CHECK(starting.code() == 143);
}

TEST_CASE("the exit code of a job that failed is not a spare's, whichever ends first") {
  const int first = GENERATE(0, 2);  // the last host is the spare
  Roster roster(3, 2, true);
  roster.start_more();
  for (size_t host = 0; host < 3; ++host) roster.is_ready(host);
  for (int step = 0; step < 3; ++step) {
    const int host = (first + 2 * step) % 3;
    roster.has_ended(static_cast<size_t>(host), host == 2 ? Roster::kSpare : 7);
  }
  CHECK(roster.all_ended());
  CHECK(roster.code() == 7);
}

TEST_CASE("lines that all hosts print are shown once each time") {
  OwnLines lines(3);
  CHECK(lines.is_new(0, "report"));
  CHECK_FALSE(lines.is_new(1, "report"));
  CHECK(lines.is_new(1, "report"));
  CHECK_FALSE(lines.is_new(0, "report"));
  CHECK(lines.is_new(2, "only here"));
  CHECK_FALSE(lines.is_new(2, "report"));
}

}  // namespace
}  // namespace ddprun::remote
