// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "collectives/backends/group_context.h"
#include "collectives/call/call.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Describes a task that all ranks take part in. Ranks compare the description, and name it in
/// errors. `number` counts the group's calls from 1.
inline Call collective_call(const GroupContext& context, const Task& task, std::uint64_t number) {
  return {.number = number,
          .count = is_unequal(task.operation) ? 0 : task.count,
          .root = context.named(task.root),
          .operation = task.operation,
          .type = static_cast<std::uint8_t>(task.type),
          .reduce = static_cast<std::uint8_t>(task.reduce)};
}

}  // namespace ddp::internal
