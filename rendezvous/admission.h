// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "rendezvous/node.h"
#include "rendezvous/spec.h"

namespace ddprun::rendezvous {

/// The job that a node asks to join.
struct Job {
  const RoundSpec& spec;
  const Nodes& nodes;
  const std::map<int, NodeId>& rank_holders;  ///< by their --node_rank
  int last_round;                             ///< the highest number used; -1: none
};

/// Why a node that is not in the job yet cannot take part in it as it asks, in a sentence that both
/// sides read: it reports what cannot be, runs another command, has a --node_rank that does not fit
/// the others', or cannot start its workers where the job has begun. nullopt: it can. Pure.
std::optional<std::string> refusal(const JoinRequest& request, const Job& job);

}  // namespace ddprun::rendezvous
