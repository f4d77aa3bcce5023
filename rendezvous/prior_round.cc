// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/prior_round.h"

#include <algorithm>

namespace ddprun::rendezvous {

void PriorRound::learn(const JoinRequest& request, int known) {
  if (request.last_round < 0) return;
  if (request.last_round > known) *this = PriorRound{};
  if (request.last_round > known) round_ = request.last_round;
  if (request.last_round != round_) return;
  members_ = std::max(members_, request.last_guests);
  restarts_ = request.last_restarts;
  if (!failure_) failure_ = request.unreported_failure;
  if (back_.insert(request.last_node_rank).second) exits_.add(request.worker_exits);
}

int PriorRound::missing() const {
  return std::max(0, members_ - static_cast<int>(back_.size()));
}

}  // namespace ddprun::rendezvous
