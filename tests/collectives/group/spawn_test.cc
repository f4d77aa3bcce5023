// SPDX-License-Identifier: Apache-2.0
#include "ddp/spawn.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;

namespace {

constexpr int kFailed = failed(ErrorKind::peer_lost);
constexpr int kUsage = failed(ErrorKind::usage);

/// Returns when everyone who could write to the output has ended.
Ended spawner(const std::string& scenario) {
  return Rank({DDPRUN_BIN "/ddp_spawner", scenario}, {}).wait();
}

}  // namespace

TEST_CASE("spawned processes find each other, and spawn returns when all have ended") {
  const Ended ended = spawner("well");
  CHECK(ended.code == 0);
  CHECK(ended.output == "once\nall ended\n");  // no process printed what was in our buffer
}

TEST_CASE("the first failure of a spawned process is thrown with its text") {
  const auto [how, told] = GENERATE(table<std::string, std::string>({
      {"throw", "ddp: spawn: rank 1 failed: thrown by the program"},
      {"exit", "ddp: spawn: rank 1 ended with exit code 7"},
      {"signal", "ddp: spawn: rank 1 was killed by SIGSEGV"},
  }));
  const Ended ended = spawner(how);
  INFO(ended.output);
  CHECK(ended.code == kFailed);
  CHECK(contains(ended.output, told + "\n"));
}

TEST_CASE("a failure stops the others, in the end by SIGKILL") {
  const Ended ended = spawner("ignore");  // ends only when they do
  INFO(ended.output);
  CHECK(ended.code == kFailed);
  CHECK(contains(ended.output, "rank 1 failed: thrown by the program"));
}

TEST_CASE("spawned processes die with the one that spawned them") {
  const Ended ended = spawner("killed");  // its output ends when the last of them is gone
  CHECK(ended.code == 128 + 9);
  CHECK(contains(ended.output, "waits"));
}

TEST_CASE("spawn refuses what cannot end well") {
  const auto [how, told] = GENERATE(table<std::string, std::string>({
      {"threads", "this process runs "},
      {"none", "nprocs must be above 0, not 0"},
  }));
  const Ended ended = spawner(how);
  INFO(ended.output);
  CHECK(ended.code == kUsage);
  CHECK(contains(ended.output, told));
}
