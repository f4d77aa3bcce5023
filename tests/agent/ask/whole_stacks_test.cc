// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/whole_stacks.h"

#include "tests/catch.h"

namespace ddprun::agent {
namespace {

ask::NodeAnswer node_answer(const std::string& host, int first_rank, const std::string& answer) {
  ask::NodeAnswer node;
  node.node.host = host;
  node.node.first_rank = first_rank;
  node.node.local_size = 2;
  node.answer = answer;
  return node;
}

std::string stacks_at(const std::string& host, const std::vector<int>& ranks) {
  std::vector<RankStack> stacks;
  for (const int rank : ranks) stacks.push_back({rank, {"main (a.py:1)"}, "running", 0});
  return stacks_json(stacks_of_node(host, stacks, {}));
}

TEST_CASE("the stacks of all nodes are one tree, and each node reports only its own ranks") {
  ask::NodeAnswers answers;
  answers.nodes = {node_answer("gpu-01", 0, stacks_at("gpu-01", {0, 1, 2})),
                   node_answer("gpu-02", 2, stacks_at("gpu-02", {0, 2, 3}))};
  CHECK(stacks_text(whole_stacks(answers)) ==
        "where ranks 0-3 are, the innermost call last:\nmain (a.py:1)\n[running]");
}

TEST_CASE("a node without an answer, or with another answer than stacks, is named") {
  ask::NodeAnswers answers;
  answers.nodes = {node_answer("gpu-01", 0, stacks_at("gpu-01", {0, 1})),
                   node_answer("gpu-02", 2, ""), node_answer("gpu\n03", 4, "[]")};
  answers.nodes[1].problem = "no answer";
  CHECK(stacks_text(whole_stacks(answers)) ==
        "where ranks 0, 1 are, the innermost call last:\nmain (a.py:1)\n[running]\n"
        "note: gpu-02: no answer\n"
        "note: gpu 03: the stacks of a node are no JSON object");
}

}  // namespace
}  // namespace ddprun::agent
