// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/named_ranks.h"

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

TEST_CASE("named ranks: those on other hosts, once each") {
  const Failure failure = failure_on_first(
      "rank 0 is at #2 all_reduce, but rank 3 is at #2 barrier (rank 3; Frank 2; local_rank 2)");
  CHECK(named_ranks_text(failure, pairs_of_ranks(2)) == "rank 3 is on host gpu-02");
  CHECK(named_ranks_text(failure, pairs_of_ranks(1)).empty());
}

TEST_CASE("named ranks: the last words count where there is no exception") {
  Failure failure = failure_on_first("");
  failure.stderr_tail = "lost rank 2\n";
  CHECK(named_ranks_text(failure, pairs_of_ranks(2)) == "rank 2 is on host gpu-02");
  failure.exception = "ValueError: 7";
  CHECK(named_ranks_text(failure, pairs_of_ranks(2)).empty());
}

TEST_CASE("named ranks: the first three, and no number that is none") {
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
