// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// The waiting nodes that take part in the next round, by node rank: element i has node rank i.
/// At most `max_nodes`: members of the latest round first, then of earlier ones, then in order of
/// joining. Pure.
std::vector<Node*> assign_node_ranks(Nodes& nodes, int max_nodes);

/// The layouts of these members, which are in the order of their node ranks.
std::vector<Layout> layouts_of(const std::vector<Node*>& members, int round, int restarts);

}  // namespace ddprun::rendezvous
