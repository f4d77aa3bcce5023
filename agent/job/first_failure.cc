// SPDX-License-Identifier: Apache-2.0
#include "agent/job/first_failure.h"

#include <algorithm>
#include <utility>

#include "agent/job/consequence.h"

namespace ddprun::agent {

std::size_t FirstFailure::ended() {
  candidates_.emplace_back();
  return candidates_.size() - 1;
}

std::optional<rendezvous::Failure> FirstFailure::examined(std::size_t number,
                                                          rendezvous::Failure failure) {
  const bool lost_a_peer = says_it_lost_a_peer(failure);
  candidates_[number] = {std::move(failure), lost_a_peer};
  if (reported_) return std::nullopt;
  const auto first =
      std::ranges::find_if(candidates_, [](const Candidate& each) { return !each.lost_a_peer; });
  if (first == candidates_.end() || !first->failure) return std::nullopt;
  reported_ = true;
  return first->failure;
}

bool FirstFailure::waits_for_cause() const {
  return !reported_ && !candidates_.empty() &&
         std::ranges::all_of(candidates_, [](const Candidate& each) { return each.lost_a_peer; });
}

std::optional<rendezvous::Failure> FirstFailure::give_up() {
  if (!waits_for_cause()) return std::nullopt;
  reported_ = true;
  return candidates_.front().failure;
}

void FirstFailure::clear() {
  candidates_.clear();
  reported_ = false;
}

}  // namespace ddprun::agent
