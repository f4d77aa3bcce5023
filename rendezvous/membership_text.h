// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/node.h"
#include "rendezvous/prior_round.h"

namespace ddprun::rendezvous {

/// Sentences about the nodes of a round. Pure; each is one line however many nodes there are.

/// A name that another host gave itself, on one line of printable characters.
std::string name_text(std::string_view name);

/// "gpu-01, gpu-02, gpu-03 and 2 more".
std::string hosts_text(const std::vector<std::string>& hosts);

/// "node 1 (gpu-08)", or "gpu-08" before it has a node rank.
std::string node_name(const Node& node);

/// The reason why a round is not complete, to follow "waiting for": "1 of 2 nodes: have node 0
/// (gpu-07, 8 workers); missing node_rank 1".
std::string membership_text(const Nodes& nodes, const RoundSpec& spec);

/// "; still stopping their workers: node 1 (gpu-08)"; empty if no node is.
std::string stopping_text(const Nodes& nodes);

/// "; still running: node 0 (gpu-07)"; empty if no node is.
std::string running_text(const Nodes& nodes);

/// "; held back after repeated losses: node 1 (gpu-08), lost 3 times"; empty if no node is.
std::string held_text(const Nodes& nodes);

/// "2nd time within 10 min of its return".
std::string repeated_loss_text(int losses);

/// "its nodes were node 0 (gpu-07), node 1 (gpu-08)": the members of `round`.
std::string members_text(const Nodes& nodes, int round);

/// Which of an earlier master's nodes a round waits for, for at most `timeout`: "1 of 3 nodes of
/// round 7, whose workers may still run (up to 10 s, --lease)".
std::string prior_round_text(const PriorRound& prior_round, std::chrono::nanoseconds timeout);
/// The same if none of these nodes is known: "nodes of round 7, whose ..."; `round` -1: unknown.
std::string prior_round_text(int round, std::chrono::nanoseconds timeout);

/// "2" or "2:4", as --nnodes takes it.
std::string nnodes_text(const RoundSpec& spec);

/// Why this --node_rank is refused.
std::string out_of_range(int node_rank, const RoundSpec& spec);

}  // namespace ddprun::rendezvous
