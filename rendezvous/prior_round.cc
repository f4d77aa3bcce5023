// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/prior_round.h"

#include <algorithm>

namespace ddprun::rendezvous {
namespace {

/// More than a job has had; it bounds what nodes report.
constexpr size_t kMostMasters = 64;

}  // namespace

void PriorRound::learn(const JoinRequest& request) {
  if (request.last_round > round_) {
    *this = PriorRound{};
    round_ = request.last_round;
  }
  if (request.last_round != round_ || settled_) return;
  members_ = std::max(members_, request.last_guests + (request.last_hosted ? 1 : 0));
  restarts_ = request.last_restarts;
  if (!failure_) failure_ = request.unreported_failure;
  if (back_.insert(request.last_node_rank).second) exits_.add(request.worker_exits);
}

int PriorRound::missing() const {
  return settled_ ? 0 : std::max(0, members_ - static_cast<int>(back_.size()));
}

void PriorRound::settle() {
  settled_ = true;
  back_.clear();
  failure_.reset();
  exits_ = {};
}

void PriorRounds::learn(const JoinRequest& request) {
  if (request.last_round < 0) return;
  const auto found = by_master_.find(request.last_master);
  if (found != by_master_.end()) return found->second.learn(request);
  if (by_master_.size() < kMostMasters) by_master_[request.last_master].learn(request);
}

int PriorRounds::missing() const {
  int missing = 0;
  for (const auto& [master, round] : by_master_) missing += round.missing();
  return missing;
}

bool PriorRounds::all_back() const {
  return latest().round() >= 0 && missing() == 0;
}

template <class Key>
const PriorRound& PriorRounds::greatest(Key key) const {
  static const PriorRound none;
  const PriorRound* greatest = &none;
  for (const auto& [master, round] : by_master_) {
    if (!round.is_settled() && key(round) > key(*greatest)) greatest = &round;
  }
  return *greatest;
}

const PriorRound& PriorRounds::latest() const {
  return greatest(
      [](const PriorRound& round) { return 2 * round.round() + (round.failure() ? 1 : 0); });
}

const PriorRound& PriorRounds::awaited() const {
  return greatest([](const PriorRound& round) { return round.missing(); });
}

void PriorRounds::forget_failures() {
  for (auto& [master, round] : by_master_) round.forget_failure();
}

void PriorRounds::settle() {
  for (auto& [master, round] : by_master_) round.settle();
}

}  // namespace ddprun::rendezvous
