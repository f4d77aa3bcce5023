// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// Connects all ranks through Gloo's TCP transport and returns when every rank is connected.
std::unique_ptr<Backend> make_gloo_backend(GroupContext context);

}  // namespace ddp::internal
