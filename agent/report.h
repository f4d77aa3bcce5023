// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/layout.h"

// Who failed first, and what became of it, in words: each function gives one message for log::error
// or log::info, without a final newline. It fits on one screen, however many ranks there are and
// whatever the worker wrote: texts that come from outside are cut, and their control characters are
// shown instead of obeyed. Pure.

namespace ddprun::agent {

/// The job ends: the cause, with the exception that the worker told of and its innermost calls; its
/// last words, as far as they say more; what became of the other workers, the exit code and why
/// there is no other try. The same on every node.
std::string failure_report(const rendezvous::Failed& failed);

/// The job goes on: the cause on one line, with the exception, or else the last line that the
/// worker wrote.
std::string failure_line(const rendezvous::Failure& root_cause, int round);

/// The cause for workers that wait for the one that is gone: "rank 3 on host gpu-07 was killed by
/// SIGKILL", "rank 3 on host gpu-07 failed: exit 1: RuntimeError: loss is nan".
std::string loss_text(const rendezvous::Failure& root_cause);

/// The round after a failure: "restart 1 of 3: round 1 with 2 nodes, 16 workers, ready 38 ms after
/// the failure".
std::string restart_line(const rendezvous::Layout& layout, int max_restarts,
                         std::chrono::nanoseconds since_failure);

/// The round after a change of membership: "round 3 with 3 of 2:4 nodes, 24 workers".
std::string regroup_line(const rendezvous::Layout& layout, int min_nodes, int max_nodes);

}  // namespace ddprun::agent
