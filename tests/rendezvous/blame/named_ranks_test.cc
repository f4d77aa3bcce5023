// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/named_ranks.h"

#include <string>

#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

/// Two ranks on each of `gpu-01`, `gpu-02` ...
Nodes pairs_of_ranks(int count) {
  Nodes nodes;
  for (int i = 0; i < count; ++i) {
    Node& node = nodes[static_cast<NodeId>(i + 1)];
    node.request.host = "gpu-0" + std::to_string(i + 1);
    node.request.local_size = 2;
    node.node_rank = i;
    node.first_rank = 2 * i;
  }
  return nodes;
}

Failure failure_on_first(const std::string& exception) {
  Failure failure;
  failure.host = "gpu-01";
  failure.exception = exception;
  return failure;
}

}  // namespace

TEST_CASE("named ranks: each rank on another host is listed once") {
  const Failure failure = failure_on_first(
      "rank 0 is at #2 all_reduce, but rank 3 is at #2 barrier (rank 3; Frank 2; local_rank 2)");
  CHECK(named_ranks_text(failure, pairs_of_ranks(2)) == "rank 3 is on host gpu-02");
  CHECK(named_ranks_text(failure, pairs_of_ranks(1)).empty());
}

TEST_CASE("named ranks: the end of stderr counts if there is no exception") {
  Failure failure = failure_on_first("");
  failure.stderr_tail = "lost rank 2\n";
  CHECK(named_ranks_text(failure, pairs_of_ranks(2)) == "rank 2 is on host gpu-02");
  failure.exception = "ValueError: 7";
  CHECK(named_ranks_text(failure, pairs_of_ranks(2)).empty());
}

TEST_CASE("named ranks: the likely cause is read at the end of stderr if there is no exception") {
  Failure failure = failure_on_first("");
  failure.stderr_tail =
      "RuntimeError: Error: ddp: rank 0 timed out after 2 s in #9 barrier: rank 3 is in no call "
      "yet, the others at #9 "
      "barrier; the timeout is that of the call or the group\n\nAt:\n  train.py(3): wait\n";
  CHECK(named_suspect(failure, pairs_of_ranks(2)) ==
        "rank 3 (gpu-02) is the likely cause: in no call yet, while the others were at #9 barrier");
}

TEST_CASE("named ranks: the fewer ranks at another call are the likely cause") {
  const Nodes nodes = pairs_of_ranks(3);
  const auto named = [&nodes](const std::string& words) {
    return named_suspect(failure_on_first("ddp::Error: ddp: " + words), nodes);
  };
  CHECK(
      named(
          "rank 3 is at #2 barrier, but rank 2 is at #2 all_reduce sum float32[4]; rank 3 is at #2 "
          "barrier, the others at #2 all_reduce sum float32[4]") ==
      "rank 3 (gpu-02) is the likely cause: at #2 barrier, while the others were at #2 all_reduce "
      "sum "
      "float32[4]");
  CHECK(named("a and b differ; ranks 1, 4-5 are at #2 barrier, the others at #3 barrier") ==
        "ranks 1, 4, 5 (gpu-01, gpu-03) are the likely cause: at #2 barrier, while the others were "
        "at #3 "
        "barrier");
  CHECK(
      named("rank 1 timed out after 8 s in #2 barrier: rank 3 is in no call since #1 barrier, the "
            "others "
            "at #2 barrier") ==
      "rank 3 (gpu-02) is the likely cause: in no call since #1 barrier, while the others were "
      "at #2 "
      "barrier");
  CHECK(named("rank 0 timed out: rank 3 is at #1 recv from rank 0, tag 0, the others at #9 x") ==
        "rank 3 (gpu-02) is the likely cause: at #1 recv from rank 0, tag 0, while the others were "
        "at #9 x");
  const std::string nobody;
  CHECK(named("a timed out: rank 3 is at #1 recv, tag 0, rank 2 at #2 x, the others at #3 x") ==
        nobody);
  // Equal sides, three sides, other words, or an unknown rank.
  CHECK(named("rank 1 timed out: ranks 2-3 are at #2 barrier, the others at #3 barrier") == nobody);
  CHECK(named("rank 1 timed out: rank 3 is at #2 barrier, rank 4 at #1 x, the others at #3 x") ==
        nobody);
  CHECK(named("rank 1 timed out: rank 3 is not answering, the others at #3 x") == nobody);
  CHECK(named("we lost; rank 3 is tired, the others at home") == nobody);
  CHECK(named("a and b differ; rank 9 is at #2 barrier, the others at #3 barrier") == nobody);
  CHECK(named("a and b differ; ranks 0-999999999 are at #2 x, the others at #3 x") == nobody);
  CHECK(named("a and b differ; rank 3- is at #2 x, the others at #3 x") == nobody);
  CHECK(named(", the others at #3 x") == nobody);
  CHECK(named("") == nobody);
}

TEST_CASE("named ranks: at most three valid ranks are listed") {
  CHECK(
      named_ranks_text(failure_on_first("rank 99999999999, rank x, rank 2, rank 4, rank 6, rank 8"),
                       pairs_of_ranks(5)) ==
      "rank 2 is on host gpu-02\nrank 4 is on host gpu-03\nrank 6 is on host gpu-04");
}

TEST_CASE("named ranks: a node that was in no round has none") {
  Nodes some = pairs_of_ranks(2);
  some[2].node_rank.reset();
  CHECK(named_ranks_text(failure_on_first("rank 3"), some).empty());
}

}  // namespace ddprun::rendezvous
