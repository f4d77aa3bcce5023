// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/mpi/library.h"

namespace ddp::internal {

/// MPI in this process. The first group that uses it loads and starts it. Unless the program
/// started it, it is ended when the process ends and all groups were left. If a group was not left
/// in good order, MPI is never ended: other ranks may still wait for this one, and mpirun kills
/// them if a process exits without MPI_Finalize.
///
/// Thread: any, several at once.

/// Loads and starts MPI, unless done before. Throws ddp::Error of kind usage if the plug-in or MPI
/// is not installed, or the group's ranks are not those of MPI's world.
MpiLibrary& start_mpi(const GroupContext& context);

/// Count the groups that were joined and not left in good order.
void begin_mpi_group();
void end_mpi_group();

}  // namespace ddp::internal
