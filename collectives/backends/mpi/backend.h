// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Makes backend mpi. Returns when every rank has joined. Throws ddp::Error, of kind usage if MPI
/// is not installed or its launcher did not start these processes.
std::unique_ptr<Backend> make_mpi_backend(GroupContext context);

}  // namespace ddp::internal
