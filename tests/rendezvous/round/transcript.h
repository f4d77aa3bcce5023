// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ddprun::rendezvous {

/// An event of a transcript, with the phases before and after it. The names are those of the table
/// in rendezvous/round/round.h.
struct Step {
  std::string event;          ///< "join, member", "fail", "tick"
  std::string before, after;  ///< phases
};

/// Replays a conversation with Round on a virtual clock and gives it back with the notifications
/// that were really sent, so that a true transcript replays to itself.
///
///     nodes 1:2 restarts 0         the spec; also window, backoff, min_uptime, join_timeout,
///                                  last_call and lease, each with a duration: 500ms 60s 5min 1h
///     a joins 4                    also: rank 1; host gpu-07; hosting (the rendezvous host);
///                                  master (it is the master itself); store 29600;
///                                  knows round 3 restarts 1 node 0 guests 2;
///                                  told restarts 2 (of its end); failed rank 1 after 3s;
///                                  runs ./train; cannot start ./train;
///                                  failed-worker 2 (exit 1) timed-out asleep 1 stopped 0,1
///                                  killed 1 by SIGTERM in 12ms
///     a fails rank 2               also: in round 0; `a succeeds` likewise
///     a leaves
///     a vanishes: connection closed
///     a dies: out of memory        vanishes by its workers' own fault
///     30s pass                     ticks at every deadline on the way, and at the end
///     master restarts              a new Round, which nobody has joined yet
///     waiting?                     prints for whom Round waits
///
/// Each command is followed by `----` and the notifications, one a line; `|` marks
/// further lines of a notification. Comments and blank lines stay.
/// A command it does not know becomes "error: ..." in the text, which no transcript contains.
/// Adds every event to `steps`, if given.
std::string replay(const std::string& transcript, std::vector<Step>* steps = nullptr);

}  // namespace ddprun::rendezvous
