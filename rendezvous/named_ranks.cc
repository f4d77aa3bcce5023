// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/named_ranks.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostRanks = 3;

/// Whether "rank" after it is another word, or another number: "Frank 2", "local_rank 2".
bool continues_word(char before) {
  return std::isalnum(static_cast<unsigned char>(before)) != 0 || before == '_' || before == '-';
}

/// The numbers after the word "rank", without doubles.
std::vector<int> ranks_in(std::string_view text) {
  constexpr std::string_view kWord = "rank ";
  std::vector<int> ranks;
  for (size_t at = text.find(kWord); at != text.npos; at = text.find(kWord, at + 1)) {
    if (at > 0 && continues_word(text[at - 1])) continue;
    int rank = 0;
    const char* const number = text.data() + at + kWord.size();
    if (std::from_chars(number, text.data() + text.size(), rank).ec != std::errc()) continue;
    if (std::ranges::count(ranks, rank) == 0) ranks.push_back(rank);
  }
  return ranks;
}

/// Of the round that the nodes were in last.
const Node* member_with(int rank, const Nodes& nodes) {
  for (const auto& [id, node] : nodes) {
    const bool was_member = node.node_rank.has_value();
    if (was_member && rank >= node.first_rank && rank - node.first_rank < node.request.local_size) {
      return &node;
    }
  }
  return nullptr;
}

}  // namespace

std::string named_ranks_text(const Failure& failure, const Nodes& nodes) {
  std::string text;
  size_t named = 0;
  for (const int rank :
       ranks_in(failure.exception.empty() ? failure.stderr_tail : failure.exception)) {
    const Node* const node = member_with(rank, nodes);
    if (node == nullptr || node->request.host == failure.host || ++named > kMostRanks) continue;
    text += (text.empty() ? "rank " : "\nrank ") + std::to_string(rank) + " is on host " +
            name_text(node->request.host);
  }
  return text;
}

}  // namespace ddprun::rendezvous
