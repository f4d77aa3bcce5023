// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/whole_stacks.h"

#include <string>
#include <utility>

#include "base/text.h"

namespace ddprun::agent {
namespace {

Stacks stacks_in(const ask::NodeAnswer& node) {
  std::string problem = node.problem;
  if (!node.answer.empty()) {
    Result<Stacks> stacks = parse_stacks(node.answer, node.node.first_rank, node.node.local_size);
    if (stacks) return std::move(*stacks);
    problem = stacks.error().message;
  }
  return stacks_of_node(node.node.host, {}, {node.node.host + ": " + problem});
}

}  // namespace

Stacks whole_stacks(const ask::NodeAnswers& answers) {
  Stacks whole;
  for (const ask::NodeAnswer& node : answers.nodes) merge_stacks(whole, stacks_in(node));
  return whole;
}

}  // namespace ddprun::agent
