// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "agent/diagnosis/process_stack.h"
#include "agent/diagnosis/python_stack.h"
#include "launcher/kernel/process_sample.h"
#include "launcher/process/worker_calls.h"
#include "rendezvous/node.h"

// From what the kernel says of workers to what that means for a job in which ranks wait for each
// other. Pure.

namespace ddprun::agent {

/// One that has not run for so long was there before others failed, and does not only take a nap.
inline constexpr std::chrono::milliseconds kStandsStill{5'000};

/// Where the worker with this global rank is; `stack` may be empty: unknown. It stands still if it
/// has not run for `still`.
rendezvous::WorkerPlace place_of(int rank, const launcher::ProcessSample& sample,
                                 const PythonStack& stack = {},
                                 std::chrono::milliseconds still = kStandsStill);

/// The same with all that is known of its stack: a program without Python shows its own innermost
/// function that has a line.
rendezvous::WorkerPlace place_with_stack(int rank, const ProcessStack& stack,
                                         std::chrono::milliseconds still = kStandsStill);

/// How long a worker has to have stood still in a hang in which none has made progress for `quiet`.
std::chrono::milliseconds still_in_hang(std::chrono::duration<double> quiet);

/// `place` of a worker that makes collective calls by `ddp`: in a call it waits for others,
/// whatever it does meanwhile.
rendezvous::WorkerPlace with_calls(rendezvous::WorkerPlace place,
                                   const std::vector<launcher::WorkerCall>& calls);

/// Adds where the worker with this global rank is in its groups, to the ranks that are there.
void add_calls(std::vector<rendezvous::CallPlace>& all, int rank,
               const std::vector<launcher::WorkerCall>& calls);

/// `places` with one for all ranks that do the same.
std::vector<rendezvous::WorkerPlace> grouped(const std::vector<rendezvous::WorkerPlace>& places);

/// Adds to `places` where workers say that they waited until they failed, all in collectives,
/// unless more than that they waited had been seen of them.
void add_told(std::vector<rendezvous::WorkerPlace>& places,
              const std::vector<rendezvous::WorkerPlace>& told);

}  // namespace ddprun::agent
