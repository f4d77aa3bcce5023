// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/facts.h"

// Facts of all nodes together, above all differences between nodes that should be alike. Pure.

namespace ddprun::doctor {

/// A finding for each trait and variable that differs, one for all equal traits, one if imports
/// take long, and one if the program uses gloo.
Findings compare(const std::vector<Facts>& nodes);

/// The names of a job's nodes: their hosts, with the rank if several nodes share a host.
std::vector<std::string> node_names(const std::vector<Facts>& nodes);

/// The names of `nodes`; of many, only the first few: "gpu-01, gpu-02 and 30 more".
std::string list_nodes(const std::vector<int>& nodes, const std::vector<std::string>& names);

}  // namespace ddprun::doctor
