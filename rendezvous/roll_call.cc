// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/roll_call.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostNames = 8;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) {
    text += " and " + std::to_string(names.size() - kMostNames) + " more";
  }
  return text;
}

/// What the user called it, else what a round called it.
std::optional<int> known_rank(const Node& node) {
  return node.request.node_rank ? node.request.node_rank : node.node_rank;
}

std::string with_workers(const Node& node) {
  const int workers = node.request.local_size;
  const std::string size = std::to_string(workers) + (workers == 1 ? " worker" : " workers");
  const auto rank = known_rank(node);
  if (!rank) return node.request.host + " (" + size + ")";
  return "node " + std::to_string(*rank) + " (" + node.request.host + ", " + size + ")";
}

std::string missing_ranks(const Nodes& nodes, const RoundSpec& spec) {
  std::set<int> taken;
  for (const auto& [id, node] : nodes) {
    if (node.request.node_rank) taken.insert(*node.request.node_rank);
  }
  if (taken.empty()) return "";
  std::vector<int> missing;
  for (int rank = 0; rank < spec.max_nodes; ++rank) {
    if (!taken.contains(rank)) missing.push_back(rank);
  }
  return missing.empty() ? "" : "; missing node_rank " + compress_ranks(missing);
}

}  // namespace

std::string node_name(const Node& node) {
  const auto rank = known_rank(node);
  if (!rank) return node.request.host;
  return "node " + std::to_string(*rank) + " (" + node.request.host + ")";
}

std::string roll_call(const Nodes& nodes, const RoundSpec& spec) {
  std::vector<const Node*> by_order;
  for (const auto& [id, node] : nodes) by_order.push_back(&node);
  std::sort(by_order.begin(), by_order.end(), [](auto* a, auto* b) {
    return std::pair(known_rank(*a), a->order) < std::pair(known_rank(*b), b->order);
  });

  std::vector<std::string> here, returning;
  for (const Node* node : by_order) {
    (node->place == Place::waiting ? here : returning)
        .push_back(node->place == Place::waiting ? with_workers(*node) : node_name(*node));
  }

  const int present = static_cast<int>(here.size());
  std::string text;
  if (present < spec.min_nodes) {
    text = std::to_string(spec.min_nodes - present) + " of " + std::to_string(spec.min_nodes) +
           (spec.min_nodes == 1 ? " node" : " nodes");
  } else {
    text = "up to " + std::to_string(std::max(spec.max_nodes - present, 0)) + " more of " +
           nnodes_text(spec) + " nodes";
  }
  text += here.empty() ? ": have none" : ": have " + joined(here);
  text += missing_ranks(nodes, spec);
  if (!returning.empty()) text += "; still stopping their workers: " + joined(returning);
  return text;
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
