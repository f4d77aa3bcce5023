// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/backends/nccl/communicator.h"

namespace ddp::internal {

/// Allocates zeroed memory of the communicator's GPU with ncclMemAlloc(), and registers it by
/// NcclCommunicator::register_memory(). The shared_ptr deregisters and frees it, in any thread.
/// Throws ddp::Error.
std::shared_ptr<void> allocate_registered(const std::shared_ptr<NcclCommunicator>& communicator,
                                          std::size_t bytes);

}  // namespace ddp::internal
