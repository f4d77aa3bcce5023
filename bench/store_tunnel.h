// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::bench {

/// Prints what it costs that a node's workers reach the store through their agent, encrypted: the
/// direct way and the tunnel in turns, `runs` of each, with 8 and 64 workers of one node. Master,
/// agent and workers are processes of this host.
void measure_tunnel(int runs);

}  // namespace ddprun::bench
