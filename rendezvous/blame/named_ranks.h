// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// The hosts of the first few ranks that the text of a failure names ("rank 0 is at #2 all_reduce,
/// but rank 3 is at #2 barrier") and that are on another host: "rank 3 is on host gpu-02", a line
/// each. Empty: there are none. Pure.
std::string named_ranks_text(const Failure& failure, const Nodes& nodes);

/// "rank 3 (gpu-02) is the likely cause: at #2 barrier, while the others were at #2 all_reduce":
/// the ranks that the error of `ddp` at the end of `failure` blames, if calls differ or ranks wait
/// for one. Empty: there are none. Pure.
std::string named_suspect(const Failure& failure, const Nodes& nodes);

}  // namespace ddprun::rendezvous
