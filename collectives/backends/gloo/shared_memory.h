// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/gloo/collectives.h"
#include "collectives/backends/gloo/mesh.h"
#include "collectives/backends/group_context.h"
#include "collectives/backends/shm/collectives.h"

namespace ddp::internal {

/// Shares memory among the ranks of the group; null if not all of them can map the same, which all
/// find alike. Neither host names nor addresses count: they may be equal in containers that share
/// nothing. Throws what Gloo throws.
std::unique_ptr<ShmCollectives> share_memory(GroupContext& context, GlooMesh& mesh,
                                             GlooCollectives& collectives);

}  // namespace ddp::internal
