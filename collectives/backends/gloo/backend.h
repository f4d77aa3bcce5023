// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// Returns when every rank is connected to every other through Gloo's TCP transport. Throws
/// ddp::Error.
std::unique_ptr<Backend> make_gloo_backend(GroupContext context);

}  // namespace ddp::internal
