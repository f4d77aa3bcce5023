// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::rendezvous {

/// Replays a conversation with Round on a virtual clock and gives it back with the letters that
/// were really sent, so that a true transcript replays to itself.
///
///   nodes 1:2 restarts 0          the spec; also join_timeout 60s, last_call 10s
///   a joins 4                     also: rank 1, host gpu-07, hosting, knows round 3 restarts 1
///   node 0 a fails rank 2                also: in round 0; `a succeeds` likewise a leaves a
///   vanishes: connection closed 30s pass                      ticks at every deadline on the way
///   waiting?                      prints for whom Round waits
///
/// Each command is followed by `----` and the letters, one a line. Comments and blank lines stay.
/// A command it does not know becomes "error: ..." in the text, which no transcript contains.
std::string replay(const std::string& transcript);

}  // namespace ddprun::rendezvous
