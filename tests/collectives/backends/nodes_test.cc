// SPDX-License-Identifier: Apache-2.0
// Ranks on several nodes: which ranks share memory, and what calls do whose ranks partly do.
#include "collectives/backends/gloo/nodes.h"

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ddp/float16.h>
#include <ddp/process_group.h>
#include <unistd.h>
#include <vector>

#include "tests/catch.h"
#include "tests/collectives/in_rank.h"
#include "tests/collectives/ranks.h"

namespace ddprun::tests {
namespace {

using ddp::internal::Nodes;

const Variables kTwoNodes = {{"DDP_TEST_NODES", "2"}};

}  // namespace

TEST_CASE("ranks that reach the same memory are on one node, in the order of ranks") {
  const Nodes nodes({0, 1, 0, 1, 4, 0});
  CHECK(nodes.count() == 3);
  CHECK(nodes.ranks(0) == std::vector{0, 2, 5});
  CHECK(nodes.ranks(1) == std::vector{1, 3});
  CHECK(nodes.ranks(2) == std::vector{4});
  CHECK(nodes.node_of(5) == 0);
  CHECK(nodes.place_of(5) == 2);
  CHECK(nodes.of(3) == std::vector{1, 3});
  CHECK(nodes.smallest() == 1);
  CHECK(nodes.counterparts(0) == std::vector{0, 1, 4});
}

TEST_CASE("a rank that reaches one that itself reaches another is alone") {
  const Nodes nodes({0, 0, 1});
  CHECK(nodes.ranks(0) == std::vector{0, 1});
  CHECK(nodes.ranks(1) == std::vector{2});
}

TEST_CASE("if one rank of a node cannot share memory none there does, and others still do") {
  const Nodes nodes = Nodes({0, 1, 0, 1}).without_broken({1, 1, 0, 1});
  CHECK(nodes.count() == 3);
  CHECK(nodes.of(0) == std::vector{0});
  CHECK(nodes.of(2) == std::vector{2});
  CHECK(nodes.of(1) == std::vector{1, 3});
}

TEST_CASE("ranks of several nodes share memory with those of their own") {
  const Words command = rank_command([](ddp::ProcessGroup& group) {
    check(is_sharing_memory() == (::geteuid() != 1), "whether memory is shared");
    group.barrier();
  });
  check_ranks(3, command, kTwoNodes);
}

TEST_CASE("sums of narrow floats over several nodes are rounded once") {
  const Words command = rank_command([](ddp::ProcessGroup& group) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{100'000}}) {
      // 256 + 1 is 256 in bfloat16, but 256 + 1 + 1 + 1 is not.
      std::vector<ddp::bfloat16> data(count, ddp::bfloat16(group.rank() == 0 ? 256.0F : 1.0F));
      group.all_reduce(data);
      check(static_cast<float>(data.front()) == 260, "sum");
      check(static_cast<float>(data.back()) == 260, "last sum");
    }
  });
  check_ranks(4, command, kTwoNodes);
}

TEST_CASE("ranks in a call that uses no memory are named, one, or all of a node") {
  const int bytes = GENERATE(4, 1 << 20);
  const int ranks = GENERATE(0b1010, 0b1000, 0b0001);  // the highest is rank 3
  const Words command = rank_command(
      [](ddp::ProcessGroup& group, int count, int others) {
        std::vector<std::int8_t> data(static_cast<std::size_t>(count));
        std::vector<std::int8_t> all(4 * data.size());
        const bool gathers = (others >> group.rank() & 1) != 0;
        gathers ? group.all_gather(data, all) : group.all_reduce(data);
      },
      bytes, ranks);
  check_failure(run_ranks(4, command, kTwoNodes), ddp::ErrorKind::mismatch,
                {"#1 all_reduce", "#1 all_gather"});
}

TEST_CASE("ranks of several nodes name one that is lost on another node in the middle of a call") {
  const Words command = rank_command([](ddp::ProcessGroup& group) {
    std::vector<float> data(100'000);
    group.all_reduce(data);
    if (group.rank() == 3) ::raise(SIGKILL);
    while (true) group.all_reduce(data);
  });
  auto ended = run_ranks(5, command, kTwoNodes);
  CHECK(ended[3].code == 128 + SIGKILL);
  ended.erase(ended.begin() + 3);
  check_failure(ended, ddp::ErrorKind::peer_lost, {"lost rank 3"});
}

}  // namespace ddprun::tests
