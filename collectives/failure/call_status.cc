// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/call_status.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "collectives/agreement/rank_status.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kMaxParties = 8;
constexpr std::size_t kMaxStatus = 256;  // bytes

/// The ranks that have one status.
struct Party {
  std::string status;
  std::vector<int> ranks;
};

std::string name(const Party& party) {
  return ddprun::ranks_text(party.ranks);
}

/// Smaller parties are named first; of equal ones, those that are furthest behind: #2 before #18.
bool is_named_before(const Party& one, const Party& other) {
  const auto place = [](const Party& party) {
    return std::tuple(party.ranks.size(), party.status.starts_with("at "));
  };
  if (place(one) != place(other)) return place(one) < place(other);
  return ::strverscmp(one.status.c_str(), other.status.c_str()) < 0;
}

std::vector<Party> parties_of(const std::map<int, std::string>& statuses) {
  std::map<std::string, std::vector<int>> by_status;
  for (const auto& [rank, status] : statuses) by_status[status].push_back(rank);
  std::vector<Party> parties;
  for (auto& [status, ranks] : by_status) parties.push_back({status, std::move(ranks)});
  std::ranges::sort(parties, is_named_before);
  return parties;
}

}  // namespace

std::string compare_statuses(const std::map<int, std::string>& statuses) {
  const std::vector<Party> parties = parties_of(statuses);
  if (parties.size() == 1 && statuses.size() > 1) return "every rank is " + parties.front().status;
  std::string text;
  for (std::size_t i = 0; i < parties.size(); ++i) {
    const Party& party = parties[i];
    if (i == kMaxParties) return text + ", and so on";
    const bool rest = i > 0 && i + 1 == parties.size() && party.ranks.size() > 1;
    if (i > 0) text += ", ";
    text += rest ? "the others" : name(party);
    if (i == 0) text += party.ranks.size() > 1 ? " are" : " is";
    text += " " + party.status;
  }
  return text;
}

std::string name_fewest(const std::map<int, std::string>& statuses) {
  const std::vector<Party> parties = parties_of(statuses);
  const auto is_silent = [](const Party& party) { return party.status == kNotAnswering; };
  if (parties.size() != 2 || std::ranges::any_of(parties, is_silent)) return "";
  return parties[0].ranks.size() < parties[1].ranks.size() ? compare_statuses(statuses) : "";
}

std::string printable_status(const std::string& status) {
  return ddprun::printable(ddprun::cut(status.substr(0, kMaxStatus + 1), kMaxStatus));
}

}  // namespace ddp::internal
