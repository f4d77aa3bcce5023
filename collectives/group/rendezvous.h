// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "collectives/agreement/group_context.h"
#include "ddp/options.h"

namespace ddp::internal {

/// Finds this process's rank, connects to the store, and returns the context of the group that
/// `options` describe. Serves the store first if rank 0 has to. Does not wait for the other ranks.
/// A group of one rank has no store, address and prefix. Throws ddp::Error.
GroupContext rendezvous(const Options& options, std::chrono::milliseconds timeout);

}  // namespace ddp::internal
