// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/doctor/facts.h"
#include "cli/doctor/finding.h"

// Findings about a node, without a look at the others. Pure.

namespace ddprun::doctor {

/// `hosts`: on how many the job's nodes are. The findings name no node.
Findings judge_node(const Facts& facts, int hosts);

/// Those of all nodes, by rank: equal ones once, with the nodes that they are about.
Findings judge_nodes(const std::vector<Facts>& nodes);

/// Whether the numeric `address` is a loopback one.
bool is_loopback_address(const std::string& address);

}  // namespace ddprun::doctor
