// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/ask/status.h"
#include "agent/job/job_spec.h"
#include "agent/job/machine.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// This agent's part in the job, as it knows it.
struct OwnPart {
  std::string host;  ///< its name
  int pid = 0;       ///< of the ddprun that the user sees
  Machine::State state = Machine::State::joining;
  const rendezvous::Layout* layout = nullptr;  ///< of its last round; nullptr: it was in none
  std::string session;  ///< of the job, as its master says; empty: there was none yet
  int restarts = 0;
  double seconds = 0;  ///< since it began
  std::vector<ask::RankStatus> ranks;
  std::string importing;  ///< "importing torch": its workers wait for that; empty: they do not
};

/// The job as this node knows it: its own part is the only node in it.
ask::JobStatus own_status(const JobSpec& job, OwnPart part);

}  // namespace ddprun::agent
