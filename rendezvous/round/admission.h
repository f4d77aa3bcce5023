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
  const std::set<std::uint64_t>& commands;    ///< hashes of those that its rounds began with
};

/// Why a node that is not in the job yet cannot take part in it as it asks, in a sentence that both
/// sides read: it reports what cannot be, has a --node_rank that does not fit the others', or comes
/// when the job has begun and cannot start its workers, or runs a command that no node ran then.
/// nullopt: it can. Pure.
std::optional<std::string> refusal(const JoinRequest& request, const Job& job);

/// A sentence about a node that runs another command than the first of `nodes`, and so may be of
/// another job. Empty: it runs the same one. Pure.
std::string other_command_text(const JoinRequest& request, const Nodes& nodes);

}  // namespace ddprun::rendezvous
