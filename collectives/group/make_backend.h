// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Returns the backend that Options::backend names, or the default if that is empty. Throws
/// ddp::Error of kind usage for an unknown name, and for nccl if it cannot be used.
std::string choose_backend(const std::string& wanted);

/// Throws ddp::Error of kind usage if there is no GPU Options::device, if a device is set for
/// another backend than nccl, and for a setting that the loaded NCCL does not know.
void check_options(const Options& options, const std::string& backend);

/// Makes the backend and connects all ranks. Returns when all have connected.
std::unique_ptr<Backend> make_backend(const std::string& chosen, GroupContext context);

/// The backend for data in host memory of a group whose backend is nccl.
std::unique_ptr<Backend> make_host_backend(GroupContext context);

/// Calls Backend::split(); make_host_backend() makes the part's backend for host memory.
std::unique_ptr<Backend> split_backend(Backend& whole, const std::optional<GroupContext>& part,
                                       const std::vector<int>& members);

}  // namespace ddp::internal
