// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/facts.h"
#include "cli/doctor/finding.h"

// Differences between nodes that should be alike. Pure.

namespace ddprun::doctor {

/// A finding for each trait and variable that differs, and one for all that is the same.
Findings compare(const std::vector<Facts>& nodes);

/// The nodes of a job for people: their hosts, with the rank where several share one.
std::vector<std::string> node_names(const std::vector<Facts>& nodes);

/// The names of `nodes`, the first few of many: "gpu-01, gpu-02 and 30 more".
std::string list_nodes(const std::vector<int>& nodes, const std::vector<std::string>& names);

}  // namespace ddprun::doctor
