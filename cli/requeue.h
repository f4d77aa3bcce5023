// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/requeue_spec.h"

namespace ddprun::cli {

/// If engine::decide_requeue says so, puts the scheduler's job back into its queue; logs the
/// result. `code` is ddprun's exit code. Call it last, as it blocks.
void requeue_if_due(const std::optional<RequeueSpec>& spec, int code, bool lost_host = false);

}  // namespace ddprun::cli
