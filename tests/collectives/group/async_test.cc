// SPDX-License-Identifier: Apache-2.0
#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;

namespace {

constexpr int kPeerLost = failed(ddp::ErrorKind::peer_lost);

}  // namespace

TEST_CASE("calls that are begun are done in their order, among others that block") {
  const int size = GENERATE(1, 2, 4);
  for (const Ended& rank : run_ranks(size, {DDPRUN_BIN "/ddp_async", "many"})) {
    INFO(size << " ranks: " << rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("a call goes on after an impatient wait") {
  for (const Ended& rank : run_ranks(3, {DDPRUN_BIN "/ddp_async", "late"})) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("every call that is under way when a rank ends fails with the same words") {
  const auto ended = run_ranks(3, {DDPRUN_BIN "/ddp_async", "die"});
  for (const int rank : {0, 2}) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == kPeerLost);
    CHECK(contains(ended[rank].output, "lost rank 1"));
  }
}

TEST_CASE("an exception gives up the calls under way") {
  const auto ended = run_ranks(2, {DDPRUN_BIN "/ddp_async", "unwind"});
  INFO(ended[0].output << ended[1].output);
  CHECK(ended[0].code == 2);
  CHECK(contains(ended[0].output, "thrown by the program"));
  CHECK(ended[1].code == kPeerLost);
  CHECK(contains(ended[1].output, "lost rank 0"));
}

TEST_CASE("a crash in a thread of the library is told as one in the program's") {
  const Ended ended = run_ranks(2, {DDPRUN_BIN "/ddp_failing", "crash"})[0];
  INFO(ended.output);
  CHECK(ended.code != 0);
  CHECK(contains(ended.output, "SIGSEGV: nothing is mapped at address 0x1"));
}
