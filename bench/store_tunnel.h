// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::bench {

/// Prints the cost when a node's workers reach the store encrypted, through their agent: the direct
/// way and the tunnel take turns, `runs` of each, with 1, 8 and 64 workers of one node. Master,
/// agent and workers are processes of this host.
void measure_tunnel(int runs);

}  // namespace ddprun::bench
