// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// A group whose data MPI moves. Waits until every rank has joined. Throws ddp::Error: usage, where
/// MPI is not installed or did not start these processes.
std::unique_ptr<Backend> make_mpi_backend(GroupContext context);

}  // namespace ddp::internal
