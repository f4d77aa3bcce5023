// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
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
  const std::set<std::uint64_t>& commands;    ///< hashes of those at the start of its rounds
};

/// Why a new node cannot take part in the job as it asks, in a sentence that both sides read: its
/// report is impossible, its --node_rank does not fit the others', or the job has begun and the
/// node cannot start its workers, or runs a command that no node ran then. nullopt: it can. Pure.
std::optional<std::string> refusal(const JoinRequest& request, const Job& job);

/// A sentence about a node that runs another command than the first of `nodes`, and so may be of
/// another job. Empty: it runs the same one. Pure.
std::string other_command_text(const JoinRequest& request, const Nodes& nodes);

}  // namespace ddprun::rendezvous
