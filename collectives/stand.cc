// SPDX-License-Identifier: Apache-2.0
#include "collectives/stand.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kMostStands = 8;
constexpr std::size_t kLongest = 256;  // bytes of a stand

struct Party {
  std::string stand;
  std::vector<int> ranks;
};

std::string name(const Party& party) {
  return (party.ranks.size() == 1 ? "rank " : "ranks ") + ddprun::compress_ranks(party.ranks);
}

}  // namespace

std::string compare_stands(const std::map<int, std::string>& stands) {
  std::map<std::string, std::vector<int>> by_stand;
  for (const auto& [rank, stand] : stands) by_stand[stand].push_back(rank);
  std::vector<Party> parties;
  for (auto& [stand, ranks] : by_stand) parties.push_back({stand, std::move(ranks)});
  std::ranges::stable_sort(parties, {}, [](const Party& party) {
    return std::tuple(party.ranks.size(), party.stand.starts_with("at "));
  });
  if (parties.size() == 1 && stands.size() > 1) return "every rank is " + parties.front().stand;
  std::string text;
  for (std::size_t i = 0; i < parties.size(); ++i) {
    const Party& party = parties[i];
    if (i == kMostStands) return text + ", and so on";
    const bool rest = i > 0 && i + 1 == parties.size() && party.ranks.size() > 1;
    if (i > 0) text += ", ";
    text += rest ? "the others" : name(party);
    if (i == 0) text += party.ranks.size() > 1 ? " are" : " is";
    text += " " + party.stand;
  }
  return text;
}

std::string stand_of(const std::string& told) {
  return ddprun::printable(ddprun::cut(told.substr(0, kLongest + 1), kLongest));
}

}  // namespace ddp::internal
