// SPDX-License-Identifier: Apache-2.0
// Checks that the tests of ranks can fail.

#include "tests/collectives/ranks.h"

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "tests/catch.h"

using namespace ddprun::tests;

TEST_CASE("a failed check in a rank is reported with the rank's sentence") {
  // Without a group: rank 0 might still be joining it when rank 1 ends.
  const auto ended = run_ranks(
      2, [] { check(std::string_view(std::getenv("RANK")) == "0", "only rank 0 is right"); });
  CHECK(ended[0].code == 0);
  CHECK(ended[0].output.empty());
  CHECK(ended[1].code == 1);
  CHECK(ended[1].output == "wrong: only rank 0 is right\n");
}

TEST_CASE("a rank's exceptions and signals are reported, and arguments reach it") {
  const auto ended = run_ranks(
      3,
      [](const std::string& text, int number, bool raises) {
        if (raises) std::raise(SIGKILL);
        throw std::runtime_error(text + std::to_string(number));
      },
      "a text of \"words\", ", -7, false);
  for (const Ended& rank : ended) {
    CHECK(rank.code == 2);
    CHECK(rank.output == "a text of \"words\", -7\n");
  }
  CHECK(run_ranks(1, [] { std::raise(SIGKILL); })[0].code == 128 + SIGKILL);
  CHECK(run_ranks(1, [] { return 7; })[0].code == 7);
}
