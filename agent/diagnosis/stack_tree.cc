// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/stack_tree.h"

#include <algorithm>

#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr size_t kDeepest = 80;  // more than any stack of ours has

void append_ranks(std::vector<int>& ranks, const std::vector<int>& more) {
  ranks.insert(ranks.end(), more.begin(), more.end());
}

/// Keeps more of the inner frames: they say more.
std::vector<std::string> without_middle(const std::vector<std::string>& frames, size_t most) {
  if (frames.size() <= most) return frames;
  const auto outer = static_cast<std::ptrdiff_t>(most / 3);
  const auto inner = static_cast<std::ptrdiff_t>(most) - outer;
  std::vector<std::string> kept(frames.begin(), frames.begin() + outer);
  kept.push_back("(" + std::to_string(frames.size() - most) + " calls left out)");
  kept.insert(kept.end(), frames.end() - inner, frames.end());
  return kept;
}

double shorter(const StackNode& known, double seconds) {
  return known.ranks.empty() ? seconds : std::min(known.seconds, seconds);
}

}  // namespace

void StackTree::add(const RankStack& stack, size_t most_frames) {
  std::vector<std::string> way = without_middle(stack.frames, most_frames);
  way.push_back("[" + stack.state + "]");
  StackNode* node = &root_;
  for (const std::string& frame : way) {
    node->ranks.push_back(stack.rank);
    node = &child(*node, cut(frame, kLongestFrame));
  }
  node->seconds = shorter(*node, stack.seconds);
  node->ranks.push_back(stack.rank);
}

StackNode& StackTree::child(StackNode& parent, const std::string& at) {
  const bool is_left_out = nodes_ >= kMostNodes && !parent.places.contains(at);
  const std::string name = is_left_out ? "..." : at;
  const auto [place, is_new] = parent.places.try_emplace(name, parent.in.size());
  if (!is_new) return parent.in[place->second];
  ++nodes_;
  return parent.in.emplace_back(StackNode{name, {}, 0});
}

void StackTree::merge(StackNode& into, const StackNode& from, size_t depth) {
  into.seconds = shorter(into, from.seconds);
  append_ranks(into.ranks, from.ranks);
  if (depth > kDeepest || into.at == "...") return;
  for (const StackNode& node : from.in) {
    merge(child(into, cut(node.at, kLongestFrame)), node, depth + 1);
  }
}

}  // namespace ddprun::agent
