// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// Backend cpu. Returns when the ranks that can share memory do; every rank has joined then. Throws
/// ddp::Error.
std::unique_ptr<Backend> make_cpu_backend(GroupContext context);

/// The same, but the ranks are connected in the first collective call; messages connect those that
/// they are between. For a group that may make no such call: n * n connections are many. Returns
/// when every rank has joined.
std::unique_ptr<Backend> make_lazy_cpu_backend(GroupContext context);

}  // namespace ddp::internal
