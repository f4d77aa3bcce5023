// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "cli/doctor/facts.h"

// Numbers as text. Pure.

namespace ddprun::doctor {

/// "64 MiB", "7.5 GiB".
std::string size_text(std::int64_t bytes);

}  // namespace ddprun::doctor

// Findings about the GPUs of a node. Pure.

namespace ddprun::doctor {

/// A finding for each kind of fault, with the GPUs that have it. Without faults, a finding that all
/// is well; without known GPUs, none.
Findings judge_gpus(const Facts& facts);

}  // namespace ddprun::doctor

// Findings about single nodes. Pure.

namespace ddprun::doctor {

/// Judges a node's facts. `hosts`: the number of hosts of the job. The findings name no node.
Findings judge_node(const Facts& facts, int hosts);

/// Judges all nodes, in the order of ranks. Equal findings become one, with its nodes.
Findings judge_nodes(const std::vector<Facts>& nodes);

/// Whether the numeric `address` is a loopback address.
bool is_loopback_address(const std::string& address);

}  // namespace ddprun::doctor
