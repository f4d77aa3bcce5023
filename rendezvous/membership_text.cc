// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership_text.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostNames = 8;
constexpr size_t kMostHosts = 3;
constexpr size_t kMostBytes = 256;  // HOST_NAME_MAX is 64

/// Its --node_rank, else that of its last round.
std::optional<int> known_rank(const Node& node) {
  return node.request.node_rank ? node.request.node_rank : node.node_rank;
}

std::string with_workers(const Node& node) {
  const int workers = node.request.local_size;
  const std::string size = count_text(workers, "worker");
  const auto rank = known_rank(node);
  if (!rank) return node.request.host + " (" + size + ")";
  return "node " + std::to_string(*rank) + " (" + node.request.host + ", " + size + ")";
}

std::string missing_ranks(const Nodes& nodes, const RoundSpec& spec) {
  std::vector<bool> taken(static_cast<size_t>(spec.max_nodes), false);
  bool any = false;
  for (const auto& [id, node] : nodes) {
    if (!node.request.node_rank || node.state == NodeState::leaving) continue;
    taken[static_cast<size_t>(*node.request.node_rank)] = any = true;
  }
  if (!any) return "";
  std::vector<int> missing;
  for (int rank = 0; rank < spec.max_nodes; ++rank) {
    if (!taken[static_cast<size_t>(rank)]) missing.push_back(rank);
  }
  return missing.empty() ? "" : "; missing node_rank " + compress_ranks(missing);
}

/// The first few of `nodes`, by node rank and then in order of joining.
std::string listed(std::vector<const Node*> nodes, std::string (*text_of)(const Node&)) {
  const size_t named = std::min(nodes.size(), kMostNames);
  // Sorts only the named ones: there may be thousands of nodes.
  std::partial_sort(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(named), nodes.end(),
                    [](const Node* a, const Node* b) {
                      return std::pair(known_rank(*a), a->order) <
                             std::pair(known_rank(*b), b->order);
                    });
  std::string text;
  for (size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + text_of(*nodes[i]);
  if (nodes.size() > named) text += " and " + std::to_string(nodes.size() - named) + " more";
  return text;
}

template <class Wanted>
std::vector<const Node*> select(const Nodes& nodes, Wanted wanted) {
  std::vector<const Node*> selected;
  for (const auto& [id, node] : nodes) {
    if (wanted(node)) selected.push_back(&node);
  }
  return selected;
}

std::vector<const Node*> stopping_nodes(const Nodes& nodes) {
  return select(nodes, [](const Node& node) {
    return node.state == NodeState::returning || node.state == NodeState::leaving;
  });
}

/// "node 1 (gpu-08), lost 3 times".
std::string with_losses(const Node& node) {
  return node_name(node) + ", lost " + std::to_string(node.losses) + " times";
}

}  // namespace

std::string name_text(std::string_view name) {
  std::string line = printable(name.substr(0, kMostBytes));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string hosts_text(const std::vector<std::string>& hosts) {
  std::string text;
  for (size_t i = 0; i < std::min(hosts.size(), kMostHosts); ++i) {
    text += (i == 0 ? "" : ", ") + name_text(hosts[i]);
  }
  if (hosts.size() > kMostHosts) {
    text += " and " + std::to_string(hosts.size() - kMostHosts) + " more";
  }
  return text;
}

std::string node_name(const Node& node) {
  const auto rank = known_rank(node);
  if (!rank) return node.request.host;
  return "node " + std::to_string(*rank) + " (" + node.request.host + ")";
}

std::string membership_text(const Nodes& nodes, const RoundSpec& spec) {
  const auto here =
      select(nodes, [](const Node& node) { return node.state == NodeState::waiting; });
  const int present = static_cast<int>(here.size());
  const auto stopping = stopping_nodes(nodes);
  if (present >= spec.max_nodes && !stopping.empty()) {
    return listed(stopping, node_name) + " to stop " + (stopping.size() == 1 ? "its" : "their") +
           " workers; have " + listed(here, with_workers);
  }

  std::string text;
  if (present < spec.min_nodes) {
    text = std::to_string(spec.min_nodes - present) + " of " + std::to_string(spec.min_nodes) +
           (spec.min_nodes == 1 ? " node" : " nodes");
  } else {
    text = "up to " + std::to_string(std::max(spec.max_nodes - present, 0)) + " more of " +
           nnodes_text(spec) + " nodes";
  }
  text += here.empty() ? ": have none" : ": have " + listed(here, with_workers);
  return text + missing_ranks(nodes, spec) + stopping_text(nodes) + held_text(nodes);
}

std::string stopping_text(const Nodes& nodes) {
  const auto stopping = stopping_nodes(nodes);
  return stopping.empty() ? "" : "; still stopping their workers: " + listed(stopping, node_name);
}

std::string running_text(const Nodes& nodes) {
  const auto running =
      select(nodes, [](const Node& node) { return node.state == NodeState::running; });
  return running.empty() ? "" : "; still running: " + listed(running, node_name);
}

std::string held_text(const Nodes& nodes) {
  const auto held = select(nodes, [](const Node& node) { return node.state == NodeState::held; });
  return held.empty() ? "" : "; held back after repeated losses: " + listed(held, with_losses);
}

std::string repeated_loss_text(int losses) {
  const bool is_teen = losses % 100 / 10 == 1;
  const char* const ending = is_teen            ? "th"
                             : losses % 10 == 1 ? "st"
                             : losses % 10 == 2 ? "nd"
                             : losses % 10 == 3 ? "rd"
                                                : "th";
  return std::to_string(losses) + ending + " time within 10 min of its return";
}

std::string members_text(const Nodes& nodes, int round) {
  const auto members =
      select(nodes, [round](const Node& node) { return node.last_round == round; });
  return "its nodes were " + listed(members, node_name);
}

std::string prior_round_text(const PriorRound& prior_round, std::chrono::nanoseconds timeout) {
  const std::string all = prior_round_text(prior_round.round(), timeout);
  return std::to_string(prior_round.missing()) + " of " + std::to_string(prior_round.members()) +
         " " + (prior_round.members() == 1 ? "node" + all.substr(all.find(' ')) : all);
}

std::string prior_round_text(int round, std::chrono::nanoseconds timeout) {
  const std::string which =
      round < 0 ? "an earlier master's round" : "round " + std::to_string(round);
  return "nodes of " + which + ", whose workers may still run (up to " + duration_text(timeout) +
         ", --lease)";
}

std::string nnodes_text(const RoundSpec& spec) {
  const std::string max = std::to_string(spec.max_nodes);
  if (spec.min_nodes == spec.max_nodes) return max;
  return std::to_string(spec.min_nodes) + ":" + max;
}

std::string out_of_range(int node_rank, const RoundSpec& spec) {
  const std::string last = std::to_string(spec.max_nodes - 1);
  const std::string allowed = spec.max_nodes == 1   ? "only 0"
                              : spec.max_nodes == 2 ? "0 and 1"
                                                    : "0 to " + last;
  return "--node_rank " + std::to_string(node_rank) + " is not one of this job's nodes: --nnodes " +
         nnodes_text(spec) + " allows " + allowed;
}

}  // namespace ddprun::rendezvous
