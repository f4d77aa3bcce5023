// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "agent/diagnosis/process_stack.h"
#include "agent/diagnosis/python_stack.h"
#include "launcher/kernel/process_sample.h"
#include "launcher/process/worker_calls.h"
#include "rendezvous/node.h"

// Turns the kernel's facts about workers into their meaning for a job in which ranks wait for each
// other. Pure.

namespace ddprun::agent {

/// A worker that has not run for so long stood still before others failed, and not just for a nap.
inline constexpr std::chrono::milliseconds kStandsStill{5'000};

/// The place of the worker with this global rank. An empty `stack` is unknown. The worker stands
/// still if it has not run for `still`.
rendezvous::WorkerPlace place_of(int rank, const launcher::ProcessSample& sample,
                                 const PythonStack& stack = {},
                                 std::chrono::milliseconds still = kStandsStill);

/// The same with the whole stack: for a program without Python, the place names the innermost own
/// function that has a line.
rendezvous::WorkerPlace place_with_stack(int rank, const ProcessStack& stack,
                                         std::chrono::milliseconds still = kStandsStill);

/// How long a worker must have stood still in a hang, if no worker has made progress for `quiet`.
std::chrono::milliseconds still_in_hang(std::chrono::duration<double> quiet);

/// Adds the worker's collective calls by `ddp` or PyTorch to its place. Inside a call it waits for
/// others, whatever the kernel says.
rendezvous::WorkerPlace with_calls(rendezvous::WorkerPlace place,
                                   const std::vector<launcher::WorkerCall>& calls);

/// Replaces the calls of the worker with this global rank. Ranks at the same call share an entry.
void add_calls(std::vector<rendezvous::CallPlace>& all, int rank,
               const std::vector<launcher::WorkerCall>& calls);

/// Whether workers that only compute may be those for which all others wait: one shows by its stack
/// that it computes in no collective, and none may do so in one.
bool may_be_awaited(const std::vector<rendezvous::WorkerPlace>& places);

/// Merges the places of ranks that do the same.
std::vector<rendezvous::WorkerPlace> grouped(const std::vector<rendezvous::WorkerPlace>& places);

/// Adds the places, all collectives, where workers say that they waited until they failed. A place
/// seen before stays if it says more than that the worker waited.
void add_waits(std::vector<rendezvous::WorkerPlace>& places,
               const std::vector<rendezvous::WorkerPlace>& waits);

}  // namespace ddprun::agent
