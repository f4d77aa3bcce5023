// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/facts.h"
#include "cli/doctor/finding.h"

// Which nodes try to reach which, and what that says. Pure.

namespace ddprun::doctor {

/// Where a node is to be reached.
struct Target {
  int node;
  std::string use;      ///< whose choice it is, as in Link
  std::string address;  ///< numeric, or a host's name
};

/// Where node `rank` tries to connect to. Up to 32 nodes each tries all others, of more the nodes
/// 1, 2, 4, 8 ... after it. `master` is the host of the rendezvous, for nodes that have no address
/// of their own that others reach.
std::vector<Target> targets(int rank, const std::vector<Facts>& nodes, const std::string& master);

/// Turns in which two nodes at a time measure their bandwidth: so that each pair of a few nodes, or
/// three pairs of each of many, have one.
int turns(int nodes);

/// With whom `rank` measures in this turn; nullopt: it rests. The lower rank of the two sends.
std::optional<int> partner(int rank, int nodes, int turn);

/// Findings about the links between the nodes.
Findings judge_links(const std::vector<Facts>& nodes, const std::vector<Link>& links);

}  // namespace ddprun::doctor
