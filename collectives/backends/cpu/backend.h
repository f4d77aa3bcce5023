// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Makes backend cpu. Returns when all ranks have joined and those that can share memory do. Throws
/// ddp::Error.
std::unique_ptr<Backend> make_cpu_backend(GroupContext context);

/// The same, but the first collective call connects the ranks, and a message connects its two. For
/// groups that may make no collective call: n * n connections are many. Returns when all joined.
std::unique_ptr<Backend> make_lazy_cpu_backend(GroupContext context);

}  // namespace ddp::internal
