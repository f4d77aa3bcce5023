// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "agent/python_stack.h"
#include "launcher/process_sample.h"
#include "rendezvous/node.h"

// From what the kernel says of workers to what that means for a job in which ranks wait for each
// other. Pure.

namespace ddprun::agent {

/// Where the worker with this global rank is; `stack` may be empty: unknown.
rendezvous::Place place_of(int rank, const launcher::ProcessSample& sample,
                           const PythonStack& stack = {});

/// `places` with one for all ranks that do the same.
std::vector<rendezvous::Place> grouped(const std::vector<rendezvous::Place>& places);

}  // namespace ddprun::agent
