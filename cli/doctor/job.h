// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/job/events.h"
#include "agent/job/job_spec.h"
#include "cli/doctor/facts.h"

namespace ddprun::doctor {

/// `ddprun doctor`: a job in which each node's only worker is ddprun itself, and the checks to
/// make.
struct Job {
  agent::JobSpec spec;
  Order order;
};

/// Makes the doctor's job of the user's: keeps rendezvous, secret and engine, and drops the
/// workers. `executable` is the path of this program.
Job make_job(agent::JobSpec spec, Order order, const std::string& executable);

/// Runs it to its end, as agent::run. If the rendezvous fails, this node reports only its own
/// facts. Returns the exit code: 0, or 1 for a failure; 128 + n after signal n.
int run(const Job& job, agent::Events& events);

}  // namespace ddprun::doctor
