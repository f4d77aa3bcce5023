// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "agent/job/events.h"
#include "agent/job/job_spec.h"
#include "agent/job/outcome.h"

namespace ddprun::agent {

/// How long the last output and events may take at the end, if their reader has stopped or their
/// disk has stalled.
inline constexpr std::chrono::seconds kLastFlush{5};

/// Runs this node's part of `job` to its end: takes part in the rendezvous (and hosts it), starts
/// and watches the workers of each round, relays their output, and reports failures to the user.
/// When it returns, all processes that it started have ended, and all output is written.
///
/// Call it once, as the agent of launcher::guard, with launcher::block_signals in force.
Outcome run(const JobSpec& job, Events& events);

/// Runs only the rendezvous of `job`, at its endpoint, until the job ends; the nodes are elsewhere.
/// Ignores the settings of `job` for workers. Call it as `run`.
Outcome serve(const JobSpec& job, Events& events);

}  // namespace ddprun::agent
