// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;

namespace {

void goes_well(int size, const std::string& scenario) {
  for (const Ended& rank : run_ranks(size, {DDPRUN_BIN "/ddp_messages", scenario})) {
    INFO(scenario << ", " << size << " ranks: " << rank.output);
    CHECK(rank.code == 0);
  }
}

}  // namespace

TEST_CASE("messages go both ways at once, of any length, whichever side begins first") {
  const int size = GENERATE(2, 4);
  goes_well(size, "both-ways");
}

TEST_CASE("messages go from every rank to every other by calls that block") {
  goes_well(3, "in-turn");
}

TEST_CASE("tags are received in any order, the messages of one tag in theirs") {
  goes_well(2, "tags");
}

TEST_CASE("a receive is open while the ranks make other calls") {
  goes_well(3, "beside");
}

TEST_CASE("a batch goes around a ring of any size") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  goes_well(size, "ring");
}

TEST_CASE("a rank reaches the message it asks for behind more than it holds") {
  goes_well(2, "flood");
}

TEST_CASE("a message may be waited for with patience or without") {
  goes_well(2, "late");
}

TEST_CASE("two threads send messages in two groups at once") {
  goes_well(3, "threads");
}

TEST_CASE("messages that were begun are done when their senders have left") {
  goes_well(3, "leave");
}

TEST_CASE("a stranger's bytes disturb no message") {
  goes_well(3, "strangers");
}

TEST_CASE("strangers who say nothing are few at a time, and keep no rank out") {
  goes_well(3, "crowd");
}

TEST_CASE("a message to itself is refused, and the group stays as it was") {
  for (const Ended& rank : run_ranks(2, {DDPRUN_BIN "/ddp_messages", "self"})) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "send to itself"));
    CHECK(contains(rank.output, "recv from itself"));
  }
}

TEST_CASE("every open message with a rank that ends fails with the same words, which name it") {
  const auto [how, code] =
      GENERATE(table<std::string, int>({{"lose-killed", 128 + SIGKILL}, {"lose-throw", 2}}));
  const int size = GENERATE(2, 3);
  const auto ended = run_ranks(size, {DDPRUN_BIN "/ddp_messages", how});
  CHECK(ended[1].code == code);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) continue;
    INFO(how << ": " << ended[rank].output);
    CHECK(ended[rank].code == failed(ErrorKind::peer_lost));
    CHECK(contains(ended[rank].output, "lost rank 1 in "));
  }
}

TEST_CASE("a message with a rank that left the group fails, and says so") {
  const auto ended = run_ranks(2, {DDPRUN_BIN "/ddp_messages", "lose-left"});
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::mismatch));
  CHECK(contains(ended[0].output, "but rank 1 is at the group's end"));
}

TEST_CASE("a message that was announced by a rank that ended is not waited for") {
  const auto ended = run_ranks(2, {DDPRUN_BIN "/ddp_messages", "lose-announced"});
  INFO(ended[0].output);
  CHECK(ended[0].code == failed(ErrorKind::peer_lost));
  CHECK(contains(ended[0].output, "lost rank 1 in recv float32[700001] from rank 1, tag 5"));
}

TEST_CASE("a rank that is sent more messages than it holds says so, and the group ends") {
  for (const Ended& rank : run_ranks(2, {DDPRUN_BIN "/ddp_messages", "overrun"})) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::mismatch));
    CHECK(contains(rank.output,
                   "rank 1 holds 131072 messages of rank 0 that it does not receive, "
                   "and one more comes, tag 131072"));
  }
}

#ifndef __SANITIZE_ADDRESS__  // its companion for types looks at objects through a pipe
TEST_CASE("a rank without descriptors for messages says so, and is missed at once") {
  const auto ended = run_ranks(2, {DDPRUN_BIN "/ddp_messages", "descriptors", "600000"});
  INFO(ended[0].output << ended[1].output);
  CHECK(contains(ended[0].output, "rank 0 "));
  CHECK(contains(ended[0].output, "Too many open files"));
  CHECK(contains(ended[1].output, "rank 0 "));
}
#endif

TEST_CASE("a message of another type or count than its receive is told on both sides") {
  const auto [how, sent, expected] = GENERATE(table<std::string, std::string, std::string>({
      {"type", "send float64[100] to rank 1, tag 5", "recv float32[100] from rank 0, tag 5"},
      {"count", "send float32[100] to rank 1, tag 5", "recv float32[101] from rank 0, tag 5"},
      {"count-long", "send float32[700001] to rank 1, tag 5",
       "recv float32[700002] from rank 0, tag 5"},
  }));
  for (const Ended& rank : run_ranks(3, {DDPRUN_BIN "/ddp_messages", "differ-" + how})) {
    INFO(rank.output);
    CHECK(rank.code == failed(ErrorKind::mismatch));
    CHECK(contains(rank.output, "rank 1 is at " + expected + ", but rank 0 is at " + sent));
  }
}

TEST_CASE("a receive that waited in vain says what came instead") {
  const LiveStore store;
  Rank sender({DDPRUN_BIN "/ddp_messages", "differ-tag"}, place(0, 2, store.port()));
  Rank receiver({DDPRUN_BIN "/ddp_messages", "differ-tag", "1500"}, place(1, 2, store.port()));
  for (Rank* rank : {&sender, &receiver}) {
    const Ended ended = rank->wait();
    INFO(ended.output);
    CHECK(ended.code == failed(ErrorKind::timed_out));
    CHECK(contains(ended.output,
                   "rank 1 waited 1500 ms in vain for rank 0 in recv float32[101] from rank 0, "
                   "tag 6; rank 0 has sent tag 5"));
  }
}
