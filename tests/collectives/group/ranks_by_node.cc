// SPDX-License-Identifier: Apache-2.0
// One rank of a job on several nodes. Checks that ranks of a node share memory, and prints them.

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "tests/collectives/in_rank.h"

int main() {
  return ddprun::tests::exit_code_of([] {
    auto group = ddprun::tests::join();
    ddprun::tests::check(ddprun::tests::is_sharing_memory(), "no memory is shared");
    std::vector<float> ones(100'000, 1);
    group.all_reduce(ones);
    ddprun::tests::check(ones == std::vector<float>(ones.size(), group.size()), "other sums");
    auto node = group.split_by_node();
    std::vector<int> ranks(static_cast<std::size_t>(node.size()));
    const int own = group.rank();
    node.all_gather(std::span(&own, 1), ranks);
    std::string line = "rank " + std::to_string(group.rank()) + " is on a node with";
    for (const int rank : ranks) line += " " + std::to_string(rank);
    std::puts(line.c_str());
  });
}
