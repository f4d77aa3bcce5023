// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/whole_job.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ddprun::agent::ask {
namespace {

/// `text` as one line that is safe to write to a terminal.
std::string line_of_text(const std::string& text) {
  std::string line = printable(text);
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

bool has_rank(const NodeStatus& node, int rank) {
  return rank >= node.first_rank && rank - node.first_rank < node.local_size;
}

NodeStatus listed_status(const rendezvous::ListedNode& listed) {
  NodeStatus node;
  node.host = line_of_text(listed.host);
  node.node_rank = listed.node_rank;
  node.state = line_of_text(listed.state);
  node.contact = listed.silent;
  node.first_rank = listed.first_rank;
  node.local_size = listed.local_size;
  return node;
}

/// Arrivals that are the node's own. nullopt: its clock was set meanwhile.
std::optional<NodeArrivals> arrivals_in(const NodeStatus& node, TimedArrivals timed,
                                        Interval asked) {
  const auto shift = clock_shift(asked, timed.clock);
  if (!shift) return std::nullopt;
  const auto is_foreign = [&node](int rank) { return !has_rank(node, rank); };
  std::erase_if(timed.groups, [&is_foreign](const GroupArrivals& group) {
    return std::ranges::any_of(group.ranks, is_foreign) ||
           std::ranges::any_of(group.calls, is_foreign, &LastArrival::rank);
  });
  return NodeArrivals{.groups = std::move(timed.groups), .clock = *shift};
}

void take_answer(NodeStatus& node, const NodeAnswer& answer, std::vector<NodeArrivals>& arrivals) {
  Result<JobStatus> status = status_in(answer.answer);
  if (!status || status->nodes.size() != 1) {
    node.problem = "its answer is not a valid status";
    return;
  }
  NodeStatus& own = status->nodes.front();
  node.pid = own.pid;
  node.state = own.state;
  node.problem = own.problem;
  node.ranks = std::move(own.ranks);
  std::erase_if(node.ranks, [&node](const RankStatus& rank) { return !has_rank(node, rank.rank); });
  for (auto& [release, ranks] : own.releases) {
    std::erase_if(ranks, [&node](int rank) { return !has_rank(node, rank); });
    if (!ranks.empty()) node.releases[release] = std::move(ranks);
  }
  if (!own.arrivals) return;
  if (auto its = arrivals_in(node, std::move(*own.arrivals), answer.clock))
    arrivals.push_back(std::move(*its));
}

Stacks stacks_in(const NodeAnswer& node) {
  std::string problem = node.problem;
  if (!node.answer.empty()) {
    Result<Stacks> stacks = parse_stacks(node.answer, node.node.first_rank, node.node.local_size);
    if (stacks) return std::move(*stacks);
    problem = stacks.error().message;
  }
  return stacks_of_node(node.node.host, {}, {node.node.host + ": " + problem});
}

}  // namespace

JobStatus whole_status(JobStatus own, const NodeAnswers& answers) {
  own.waiting = line_of_text(answers.waiting);
  if (answers.nodes.empty()) return own;
  own.nodes.clear();
  std::vector<NodeArrivals> arrivals;
  for (const NodeAnswer& answer : answers.nodes) {
    NodeStatus& node = own.nodes.emplace_back(listed_status(answer.node));
    if (answer.answer.empty()) node.problem = answer.problem;
    if (!answer.answer.empty()) take_answer(node, answer, arrivals);
  }
  own.slow = slow_rank(arrivals);
  std::ranges::stable_sort(own.nodes, {}, &NodeStatus::first_rank);
  return own;
}

Stacks whole_stacks(const NodeAnswers& answers) {
  Stacks whole;
  for (const NodeAnswer& node : answers.nodes) merge_stacks(whole, stacks_in(node));
  return whole;
}

}  // namespace ddprun::agent::ask
