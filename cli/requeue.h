// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/requeue_spec.h"

namespace ddprun::cli {

/// Puts the scheduler's job back into its queue if it ended as engine::decide_requeue has it, and
/// says what it did. `code` is the exit code of ddprun, which has nothing else left to do. Blocks.
void requeue_if_due(const std::optional<RequeueSpec>& spec, int code, bool lost_host = false);

}  // namespace ddprun::cli
