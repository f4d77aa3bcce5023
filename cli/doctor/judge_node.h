// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/doctor/facts.h"

// Findings about single nodes. Pure.

namespace ddprun::doctor {

/// Judges a node's facts. `hosts`: the number of hosts of the job. The findings name no node.
Findings judge_node(const Facts& facts, int hosts);

/// Judges all nodes, in the order of ranks. Equal findings become one, with its nodes.
Findings judge_nodes(const std::vector<Facts>& nodes);

/// Whether the numeric `address` is a loopback address.
bool is_loopback_address(const std::string& address);

}  // namespace ddprun::doctor
