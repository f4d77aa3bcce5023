// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "collectives/backends/group_context.h"
#include "ddp/options.h"

namespace ddp::internal {

/// The context of the group that `options` describe: finds this process's rank and connects to the
/// store, which it serves first where rank 0 has to. Does not wait for the other ranks. Without a
/// store, address and prefix for a group of one rank. Throws ddp::Error.
GroupContext rendezvous(const Options& options, std::chrono::milliseconds timeout);

}  // namespace ddp::internal
