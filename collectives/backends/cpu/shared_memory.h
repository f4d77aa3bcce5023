// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backends/cpu/collectives.h"
#include "collectives/backends/cpu/listeners.h"
#include "collectives/backends/cpu/mesh.h"
#include "collectives/backends/cpu/nodes.h"
#include "collectives/backends/group_context.h"
#include "collectives/backends/shm/collectives.h"

namespace ddp::internal {

/// What the ranks of this rank's node do in their memory, numbered by their places.
struct SharedMemory {
  Nodes nodes;
  std::unique_ptr<ShmCollectives> collectives;  ///< null if this rank is alone on its node
};

/// Shares memory among the ranks of the group that can map the same, and tells all who they are.
/// Neither host names nor addresses count: they may be equal in containers that share nothing.
/// If one rank of a node cannot share, none of that node does. The ranks tell each other their
/// listeners on the way. Throws what CpuMesh::move() throws.
SharedMemory share_memory(const GroupContext& context, CpuListeners& listeners, CpuMesh& mesh,
                          CpuCollectives& whole);

}  // namespace ddp::internal
