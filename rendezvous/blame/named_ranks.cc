// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/named_ranks.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/number.h"
#include "base/text.h"
#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostRanks = 3;
constexpr int kMostNamed = 4096;   // of a range that a program wrote
constexpr size_t kMostPieces = 8;  // of a list of ranks

/// Whether "rank" after this character is a part of another word: "Frank 2", "local_rank 2".
bool continues_word(char before) {
  return std::isalnum(static_cast<unsigned char>(before)) != 0 || before == '_' || before == '-';
}

/// The numbers after the word "rank", without doubles.
std::vector<int> ranks_in(std::string_view text) {
  constexpr std::string_view kWord = "rank ";
  std::vector<int> ranks;
  for (size_t at = text.find(kWord); at != text.npos; at = text.find(kWord, at + 1)) {
    if (at > 0 && continues_word(text[at - 1])) continue;
    const auto rank = leading_number<int>(text.substr(at + kWord.size()));
    if (rank && std::ranges::count(ranks, *rank) == 0) ranks.push_back(*rank);
  }
  return ranks;
}

/// The node that had `rank` in its last round.
const Node* member_with(int rank, const Nodes& nodes) {
  for (const auto& [id, node] : nodes) {
    const bool was_member = node.node_rank.has_value();
    if (was_member && rank >= node.first_rank && rank - node.first_rank < node.request.local_size) {
      return &node;
    }
  }
  return nullptr;
}

/// The ranks of a list "0-2, 5"; empty: `text` is something else.
std::vector<int> ranks_of_list(std::string_view text) {
  std::vector<int> ranks;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(", "));
    text.remove_prefix(std::min(part.size() + 2, text.size()));
    const size_t dash = std::min(part.find('-'), part.size());
    const auto first = whole_number(part.substr(0, dash), 0);
    const auto last = dash < part.size() ? whole_number(part.substr(dash + 1), 0) : first;
    if (!first || !last || *first > *last || *last - *first >= kMostNamed) return {};
    for (int rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

/// The ranks of "rank 3 is at #2 barrier", and what they did.
struct Named {
  std::vector<int> ranks;
  std::string_view what;
};

Named named_in(std::string_view clause) {
  for (const auto& [begin, verb] :
       {std::pair<std::string_view, std::string_view>{"rank ", " is "}, {"ranks ", " are "}}) {
    const size_t end = clause.find(verb);
    if (!clause.starts_with(begin) || end == clause.npos) continue;
    return {ranks_of_list(clause.substr(begin.size(), end - begin.size())),
            clause.substr(end + verb.size())};
  }
  return {};
}

bool is_call_status(std::string_view text) {
  return text.starts_with("at #") || text.starts_with("in no call");
}

/// Whether more text about another rank follows a comma. That of a message has its tag there.
bool has_more(std::string_view text) {
  const size_t comma = text.find(", ");
  return comma != text.rfind(", ") || comma != text.find(", tag ");
}

std::string hosts_of(const std::vector<int>& ranks, const Nodes& nodes) {
  std::vector<std::string> hosts;
  for (const int rank : ranks) {
    const Node* const node = member_with(rank, nodes);
    if (node != nullptr && std::ranges::count(hosts, node->request.host) == 0) {
      hosts.push_back(node->request.host);
    }
  }
  std::string text;
  for (size_t i = 0; i < std::min(hosts.size(), kMostRanks); ++i) {
    text += (i == 0 ? "" : ", ") + name_text(hosts[i]);
  }
  return text + (hosts.size() > kMostRanks ? " ..." : "");
}

/// The exception; without one, as of a Python program without @record, the end of stderr.
std::string_view words_of(const Failure& failure) {
  return failure.exception.empty() ? failure.stderr_tail : failure.exception;
}

}  // namespace

/// If there is a third group, or both groups are as large, the first one need not be to blame.
std::string named_suspect(const Failure& failure, const Nodes& nodes) {
  constexpr std::string_view kOthers = ", the others ";
  const std::string_view text = words_of(failure);
  const size_t others = text.rfind(kOthers);
  if (others == text.npos) return "";
  const size_t after_other_words = text.rfind("; rank", others);
  const size_t begin = std::max(after_other_words + 1, text.rfind(": rank", others) + 1);
  if (begin == 0) return "";
  const Named named = named_in(text.substr(begin + 1, others - begin - 1));
  const std::string_view rest = text.substr(others + kOthers.size());
  const bool is_fewer = begin == after_other_words + 1 || named.ranks.size() == 1;
  const bool is_known = is_call_status(named.what) && !has_more(named.what) && is_call_status(rest);
  const std::string hosts = hosts_of(named.ranks, nodes);
  if (hosts.empty() || !is_fewer || !is_known) return "";
  return ranks_text(named.ranks, kMostPieces) + " (" + hosts + ")" +
         (named.ranks.size() == 1 ? " is" : " are") +
         " the likely cause: " + printable(named.what) + ", while the others were " +
         printable(rest.substr(0, rest.find_first_of(";\n")));
}

std::string named_ranks_text(const Failure& failure, const Nodes& nodes) {
  std::string text;
  size_t named = 0;
  for (const int rank : ranks_in(words_of(failure))) {
    const Node* const node = member_with(rank, nodes);
    if (node == nullptr || node->request.host == failure.host || ++named > kMostRanks) continue;
    text += (text.empty() ? "rank " : "\nrank ") + std::to_string(rank) + " is on host " +
            name_text(node->request.host);
  }
  return text;
}

}  // namespace ddprun::rendezvous
