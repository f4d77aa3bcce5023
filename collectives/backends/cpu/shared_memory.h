// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/collectives.h"
#include "collectives/backends/cpu/listeners.h"
#include "collectives/backends/cpu/mesh.h"
#include "collectives/backends/cpu/messages.h"
#include "collectives/backends/cpu/nodes.h"
#include "collectives/backends/shm/collectives.h"

namespace ddp::internal {

/// The memory that the ranks of this rank's node share; there they are numbered by place.
struct SharedMemory {
  Nodes nodes;
  std::unique_ptr<ShmCollectives> collectives;  ///< null if this rank is alone on its node
};

/// Shares memory among the ranks of the group that can map the same, and tells all ranks who they
/// are. Host names and addresses do not count: they may be equal in containers that share nothing.
/// If one rank of a node cannot share, none of that node does. The ranks also exchange their
/// listeners, and those of a node connect by `messages`. Throws what CpuMesh::move() throws.
SharedMemory share_memory(const GroupContext& context, CpuListeners& listeners, const CpuMesh& mesh,
                          CpuCollectives& whole, CpuMessages& messages);

}  // namespace ddp::internal
