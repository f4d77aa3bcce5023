// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "collectives/call/task.h"

namespace ddp::internal {

/// Check that the buffers and the stream of a task are on the GPU that does it. NCCL and CUDA do
/// not check: a kernel would access memory that is not its own, or the group would hang.

/// The GPU in whose memory the task's data is; none if the task has no data there.
std::optional<int> find_device(const Task& task);

/// Says why the task cannot be done on `device`, as text after the operation's name in an error;
/// empty if it can.
std::string find_misplaced(const Task& task, int device);

}  // namespace ddp::internal
