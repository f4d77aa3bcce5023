// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/node_group.h"

#include <cstring>
#include <utility>

#include "collectives/call/route.h"

namespace ddp::internal {
namespace {

/// Does a task on a node of one rank: a copy.
void do_alone(const Task& task) {
  if (!reduces(task.operation)) return copy_own(Route(task, 0, 1), 0);
  if (task.count > 0) std::memmove(task.out, task.in, task.count * size_of(task.type));
}

}  // namespace

NodeGroup::NodeGroup(const GroupContext& context, CpuCollectives& whole, SharedMemory shared)
    : whole_(whole),
      nodes_(std::move(shared.nodes)),
      memory_(std::move(shared.collectives)),
      node_(nodes_.node_of(context.rank)),
      place_(nodes_.place_of(context.rank)) {
  if (place_ < nodes_.smallest()) {
    counterparts_.emplace(nodes_.counterparts(place_), context.rank);
  }
}

void NodeGroup::run(const Task& task, const Call& call) {
  memory_ ? memory_->run(task, call) : do_alone(task);
}

void NodeGroup::agree(const Call& call) {
  if (leads()) whole_.agree(*counterparts_, call);
}

std::vector<std::size_t> NodeGroup::shares_by_place(std::size_t count) const {
  const Blocks all = shares(count);
  std::vector<std::size_t> counts(static_cast<std::size_t>(nodes_.size(node_)));
  for (int place = 0; place < nodes_.smallest(); ++place) {
    counts[static_cast<std::size_t>(place)] = all.count(place);
  }
  return counts;
}

}  // namespace ddp::internal
