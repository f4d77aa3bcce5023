// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/facts.h"

// Which nodes try to reach which others, and findings from that. Pure.

namespace ddprun::doctor {

/// An address by which others try to reach a node.
struct Target {
  int node;
  std::string use;      ///< who chose the address, as in Link
  std::string address;  ///< numeric, or a host's name
};

/// The targets that node `rank` tries. With up to 32 nodes, each tries all others; with more, the
/// nodes 1, 2, 4, 8 ... after it. `master`, the host of the rendezvous, stands for nodes without an
/// address that others reach.
std::vector<Target> targets(int rank, const std::vector<Facts>& nodes, const std::string& master);

/// The number of turns in which pairs of nodes measure their bandwidth: enough for each pair of few
/// nodes, or for three pairs with each of many nodes.
int turns(int nodes);

/// The node with which `rank` measures in this turn; nullopt: it rests. The lower rank sends.
std::optional<int> partner(int rank, int nodes, int turn);

/// Findings about the links between the nodes.
Findings judge_links(const std::vector<Facts>& nodes, const std::vector<Link>& links);

}  // namespace ddprun::doctor
