// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "collectives/call/task.h"

namespace ddp::internal {

/// Whether the buffers and the stream of a task are on the GPU that is to do it. NCCL and CUDA do
/// not look: a kernel would access memory that is not its own, or the group would hang.

/// The GPU in whose memory the task's data is; none if it has none there.
std::optional<int> find_device(const Task& task);

/// Why the task cannot be done on `device`, to follow the operation's name in an error; empty if it
/// can.
std::string find_misplaced(const Task& task, int device);

}  // namespace ddp::internal
