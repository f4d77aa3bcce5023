// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Throws std::runtime_error with MPI's text if the return value of an MPI function is an error.
void must(int result);

MPI_Datatype mpi_type(DataType type);

/// MpiGroup::run() on this communicator.
void run_call(const Task& task, MPI_Comm comm);

}  // namespace ddp::internal
