// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Throws std::runtime_error where MPI's answer is an error.
void must(int answer);

MPI_Datatype mpi_type(DataType type);

/// Does a collective task with MPI's own function for it, as MpiGroup::run().
void run_call(const Task& task, MPI_Comm comm);

}  // namespace ddp::internal
