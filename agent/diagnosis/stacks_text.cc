// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "agent/diagnosis/stacks.h"
#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr size_t kMostPieces = 8;  // of a list of ranks
constexpr size_t kMostHostNames = 2;

/// How much of a tree is shown.
struct Detail {
  size_t calls;   // in a row
  size_t groups;  // at one place
};

/// The steps from the most that a screen can show to the least that is useful.
constexpr Detail kDetails[] = {{40, 12}, {24, 8}, {16, 8}, {12, 8}, {8, 6},
                               {6, 6},   {5, 4},  {4, 4},  {3, 4},  {2, 4}};

using Lines = std::vector<std::string>;

std::string node_label(const StackNode& node) {
  if (node.seconds < 1 || !node.at.ends_with(']')) return node.at;
  const std::chrono::duration<double> seconds(node.seconds);
  const auto whole = std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
  return node.at.substr(0, node.at.size() - 1) + " for " + duration_text(whole) + "]";
}

class Page {
 public:
  Page(const Stacks& stacks, Detail detail) : stacks_(stacks), detail_(detail) {}

  Lines lines() {
    add_below(stacks_.tree.root(), "");
    return std::move(lines_);
  }

 private:
  /// Adds the calls that all ranks of `node` have made, then the groups into which they part.
  void add_below(const StackNode& node, const std::string& indent) {
    Lines chain;
    const StackNode* at = &node;
    for (; at->in.size() == 1; at = &at->in.front()) chain.push_back(node_label(at->in.front()));
    add_chain(chain, indent);
    std::vector<const StackNode*> groups;
    for (const StackNode& group : at->in) groups.push_back(&group);
    std::ranges::sort(groups, [](const StackNode* a, const StackNode* b) {
      if (a->ranks.size() != b->ranks.size()) return a->ranks.size() > b->ranks.size();
      return std::ranges::min(a->ranks) < std::ranges::min(b->ranks);
    });
    add_groups(groups, indent);
  }

  void add_chain(const Lines& chain, const std::string& indent) {
    const size_t outer = detail_.calls / 3;
    const size_t left_out = chain.size() > detail_.calls + 1 ? chain.size() - detail_.calls : 0;
    for (size_t i = 0; i < chain.size(); ++i) {
      if (i == outer && left_out > 0) {
        lines_.push_back(indent + "... " + std::to_string(left_out) + " more calls ...");
        i += left_out;
      }
      lines_.push_back(indent + chain[i]);
    }
  }

  /// Adds the largest groups, and the smallest: these may have caused a hang.
  void add_groups(const std::vector<const StackNode*>& groups, const std::string& indent) {
    const size_t half = detail_.groups / 2;
    const size_t left_out = groups.size() > detail_.groups + 1 ? groups.size() - 2 * half : 0;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (i == half && left_out > 0) {
        lines_.push_back(indent + "... " + std::to_string(left_out) + " more groups of ranks ...");
        i += left_out;
      }
      lines_.push_back(indent + ranks_text(groups[i]->ranks, kMostPieces) +
                       hosts_text(groups[i]->ranks) + ":");
      StackNode alone{"", {}, 0, {*groups[i]}};
      add_below(alone, indent + "  ");
    }
  }

  std::string hosts_text(const std::vector<int>& ranks) const {
    if (stacks_.hosts.size() < 2) return "";
    Lines names;
    for (const Stacks::Host& host : stacks_.hosts) {
      const bool has_some = std::ranges::any_of(
          host.ranks, [&ranks](int rank) { return std::ranges::count(ranks, rank) > 0; });
      if (has_some) names.push_back(host.name);
      if (names.size() > kMostHostNames) return "";
    }
    if (names.empty()) return "";
    return " (" + names.front() + (names.size() > 1 ? ", " + names.back() : "") + ")";
  }

  const Stacks& stacks_;
  const Detail detail_;
  Lines lines_;
};

/// Shows as much detail as fits.
Lines fitting_lines(const Stacks& stacks, size_t most_lines) {
  Lines lines;
  for (const Detail& detail : kDetails) {
    lines = Page(stacks, detail).lines();
    if (lines.size() <= most_lines) return lines;
  }
  lines.resize(most_lines);
  lines.emplace_back("... and more than fits here");
  return lines;
}

}  // namespace

std::string stacks_text(const Stacks& stacks, size_t most_lines) {
  const std::vector<int>& ranks = stacks.tree.root().ranks;
  std::string text = ranks.empty()
                         ? "no worker runs"
                         : "where " + ranks_text(ranks, kMostPieces) +
                               (ranks.size() == 1 ? " is" : " are") + ", the innermost call last:";
  for (const std::string& line : fitting_lines(stacks, most_lines)) text += "\n" + line;
  for (const std::string& note : stacks.notes) text += "\nnote: " + note;
  if (stacks.more_notes > 0) text += "\nnote: " + std::to_string(stacks.more_notes) + " more";
  return text;
}

}  // namespace ddprun::agent
