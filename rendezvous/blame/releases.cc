// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/releases.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"
#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kMostReleases = 4;
constexpr std::size_t kMostRunsOfHolders = 8;  // of a list of ranks

}  // namespace

void Releases::add(const std::string& release, const std::vector<int>& ranks,
                   const std::string& host) {
  const bool is_known = releases_.contains(release);
  if (release.empty() || (!is_known && releases_.size() == kMostReleases)) return;
  Holders& holders = releases_[release];
  holders.ranks.insert(ranks.begin(), ranks.end());
  if (std::ranges::count(holders.hosts, host) == 0) holders.hosts.push_back(host);
}

std::string Releases::text() const {
  if (releases_.size() < 2) return "";
  std::string text;
  for (const auto& [release, holders] : releases_) {
    const std::vector<int> ranks(holders.ranks.begin(), holders.ranks.end());
    text += (text.empty() ? "" : ", ") + ranks_text(ranks, kMostRunsOfHolders) + " (" +
            hosts_text(holders.hosts) + ") " + (ranks.size() == 1 ? "has " : "have ") +
            name_text(release);
  }
  return text;
}

}  // namespace ddprun::rendezvous
