// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "rendezvous/layout.h"

namespace ddprun::rendezvous {

/// The state that the masters of a job leave to their successors.
struct JobState {
  int round = -1;                ///< the latest that was announced; -1: none
  int restarts = 0;              ///< spent so far
  std::optional<Ending> ending;  ///< the job is over
};

}  // namespace ddprun::rendezvous
