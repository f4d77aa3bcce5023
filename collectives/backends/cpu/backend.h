// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// Makes backend cpu. Returns when every rank has joined and the ranks that can share memory do.
/// Throws ddp::Error.
std::unique_ptr<Backend> make_cpu_backend(GroupContext context);

/// The same, but the first collective call connects the ranks, and a message connects its two. For
/// a group that may make no collective call: n * n connections are many. Returns when every rank
/// has joined.
std::unique_ptr<Backend> make_lazy_cpu_backend(GroupContext context);

}  // namespace ddp::internal
