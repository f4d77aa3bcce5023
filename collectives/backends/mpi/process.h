// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/group_context.h"
#include "collectives/backends/mpi/library.h"

namespace ddp::internal {

/// MPI in this process: loaded and started for the first group that asks for it and, unless the
/// program started it itself, ended after the last group is left, when the process ends. Where a
/// group was not left in good order it is never ended: others may still wait for this rank, and
/// mpirun, which then sees a process go without a word, ends them.
///
/// Thread: any, several at once.

/// MPI, of which this group's ranks are processes. Throws ddp::Error of kind usage: the plugin or
/// MPI is not installed, the processes were not started as one MPI job.
MpiLibrary& start_mpi(const GroupContext& context);

/// A group is joined, and is left in good order.
void begin_mpi_group();
void end_mpi_group();

}  // namespace ddp::internal
