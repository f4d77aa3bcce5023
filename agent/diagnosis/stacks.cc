// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/stacks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr size_t kMostNotes = 16;
constexpr size_t kLongestNote = 400;
constexpr size_t kLongestHost = 64;
constexpr size_t kMostHosts = 65'536;
constexpr int kRankLimit = 1 << 24;
constexpr size_t kMostRanksRead = 4'000'000;  // in all nodes of a tree

/// The ranks about which a node may report.
struct Range {
  int first = 0;
  int end = kRankLimit;
};

std::string shown_line(std::string_view text, size_t most) {
  std::string line = printable(text.substr(0, most * 4));
  std::ranges::replace(line, '\n', ' ');
  return cut(std::move(line), most);
}

std::string ranks_list(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return list_text(ranks);
}

const Json& member(const Json& json, const char* name) {
  static const Json nothing;
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found == json.end() ? nothing : *found;
}

std::string text_value(const Json& json) {
  return json.is_string() ? json.get<std::string>() : "";
}

Json json_of(const StackNode& node) {
  Json json = {{"at", node.at}, {"ranks", ranks_list(node.ranks)}};
  if (node.seconds > 0) json["seconds"] = node.seconds;
  for (const StackNode& inner : node.in) json["in"].push_back(json_of(inner));
  return json;
}

/// Parses the text of another process. An invalid list of ranks ends at its first error.
class Reader {
 public:
  explicit Reader(Range range) : range_(range) {}

  /// The ranks of a list such as "0-6,9" that are in the range.
  std::vector<int> ranks(std::string_view text) {
    std::vector<int> ranks;
    int next = 0;  // the ranks must ascend: so a short text is no endless list
    for (Range run; take_run(text, run) && run.first >= next; next = run.end) {
      for (int rank = std::max(run.first, range_.first); rank < std::min(run.end, range_.end);
           ++rank) {
        if (left_ == 0) return ranks;
        --left_;
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

  StackNode node(const Json& json) {
    StackNode node{shown_line(text_value(member(json, "at")), StackTree::kLongestFrame),
                   ranks(text_value(member(json, "ranks"))), 0};
    const Json& seconds = member(json, "seconds");
    if (seconds.is_number()) node.seconds = std::clamp(seconds.get<double>(), 0.0, 1e9);
    node.in = nodes(member(json, "in"));
    return node;
  }

  std::vector<StackNode> nodes(const Json& list) {
    std::vector<StackNode> nodes;
    for (const Json& json : list) {
      nodes.push_back(node(json));
      if (nodes.back().ranks.empty()) nodes.pop_back();
    }
    return nodes;
  }

 private:
  /// Takes "3" or "3-7", and the comma after it, off `text`. Returns false if it is neither.
  static bool take_run(std::string_view& text, Range& run) {
    const std::string_view word = take_piece(text, ',');
    const size_t dash = std::min(word.find('-'), word.size());
    const auto first = whole_number(word.substr(0, dash), 0, kRankLimit - 1);
    const auto last =
        dash < word.size() ? whole_number(word.substr(dash + 1), 0, kRankLimit - 1) : first;
    if (!first || !last) return false;
    run.first = *first;
    run.end = *last + 1;
    return *first <= *last;
  }

  Range range_;
  size_t left_ = kMostRanksRead;
};

StackNode root_of(std::vector<StackNode> outermost) {
  StackNode root{"", {}, 0, std::move(outermost)};
  for (const StackNode& node : root.in) {
    root.ranks.insert(root.ranks.end(), node.ranks.begin(), node.ranks.end());
  }
  return root;
}

void add_note(Stacks& stacks, const std::string& note) {
  if (note.empty() || std::ranges::count(stacks.notes, note) > 0) return;
  if (stacks.notes.size() < kMostNotes) return stacks.notes.push_back(note);
  ++stacks.more_notes;
}

/// A count that a node reports, limited to a plausible number.
size_t count_value(const Json& json) {
  if (!json.is_number()) return 0;
  return static_cast<size_t>(std::clamp(json.get<double>(), 0.0, 1e6));
}

Result<Stacks> parse_in(std::string_view text, Range range) {
  const auto json = parse_bounded(text);
  if (!json.is_object()) return Error{Errc::protocol, "the stacks of a node are no JSON object"};
  Stacks stacks;
  Reader reader(range);
  for (const Json& host : member(json, "hosts")) {
    if (stacks.hosts.size() == kMostHosts) break;
    stacks.hosts.push_back({shown_line(text_value(member(host, "host")), kLongestHost),
                            reader.ranks(text_value(member(host, "ranks")))});
  }
  for (const Json& note : member(json, "notes")) {
    add_note(stacks, shown_line(text_value(note), kLongestNote));
  }
  stacks.more_notes += count_value(member(json, "more_notes"));
  stacks.tree.merge(root_of(reader.nodes(member(json, "stacks"))));
  return stacks;
}

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

Stacks stacks_of_node(const std::string& host, const std::vector<RankStack>& ranks,
                      const std::vector<std::string>& notes) {
  std::vector<int> all;
  for (const RankStack& rank : ranks) all.push_back(rank.rank);
  Stacks stacks;
  for (const size_t most_frames : {64, 32, 16, 8, 4, 2, 1, 0}) {
    stacks = {{{shown_line(host, kLongestHost), all}}, {}, 0, {}};
    for (const std::string& note : notes) add_note(stacks, shown_line(note, kLongestNote));
    for (const RankStack& rank : ranks) stacks.tree.add(rank, most_frames);
    if (stacks_json(stacks).size() <= kMostStacksJson) return stacks;
  }
  stacks.tree = {};
  add_note(stacks, "the stacks of " + shown_line(host, kLongestHost) + " are too many");
  return stacks;
}

void merge_stacks(Stacks& into, const Stacks& from) {
  into.hosts.insert(into.hosts.end(), from.hosts.begin(), from.hosts.end());
  for (const std::string& note : from.notes) add_note(into, note);
  into.more_notes += from.more_notes;
  into.tree.merge(from.tree.root());
}

std::string stacks_json(const Stacks& stacks) {
  Json hosts = Json::array();
  for (const Stacks::Host& host : stacks.hosts) {
    hosts.push_back({{"host", host.name}, {"ranks", ranks_list(host.ranks)}});
  }
  Json roots = Json::array();
  for (const StackNode& node : stacks.tree.root().in) roots.push_back(json_of(node));
  Json json = {{"hosts", std::move(hosts)}, {"notes", stacks.notes}, {"stacks", std::move(roots)}};
  if (stacks.more_notes > 0) json["more_notes"] = stacks.more_notes;
  return json_text(json);
}

Result<Stacks> parse_stacks(std::string_view json, int first_rank, int local_size) {
  return parse_in(json, {first_rank, first_rank + local_size});
}

Result<Stacks> parse_stacks(std::string_view json) {
  return parse_in(json, {});
}

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
