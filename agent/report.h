// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/layout.h"

// Who failed first, and what became of it, in words: each function gives one message for log::error
// or log::info, without a final newline. It fits on one screen, however many ranks there are and
// whatever the worker wrote: texts that come from outside are cut, and their control characters are
// shown instead of obeyed. Pure.

namespace ddprun::agent {

/// How the workers of a round were stopped on this node.
struct StopSummary {
  int signal = 0;                              ///< the first one they got; 0: nobody stopped them
  std::vector<int> stopped;                    ///< global ranks that ended after it
  std::vector<int> killed;                     ///< of these, the ones that needed SIGKILL
  std::chrono::steady_clock::duration took{};  ///< until nothing was left
};

/// The job ends: the cause, the worker's last words, whom ddprun stopped, the exit code and why
/// there is no other try. `restarts` of `max_restarts` were spent.
std::string failure_report(const rendezvous::Failure& root_cause, int round,
                           const StopSummary& stop, int restarts, int max_restarts);

/// The job goes on: the cause on one line, with the last line that the worker wrote.
std::string failure_line(const rendezvous::Failure& root_cause, int round);

/// The round after a failure: "restart 1 of 3: round 1 with 2 nodes, 16 workers, ready 38 ms after
/// the failure".
std::string restart_line(const rendezvous::Layout& layout, int max_restarts,
                         std::chrono::nanoseconds since_failure);

}  // namespace ddprun::agent
