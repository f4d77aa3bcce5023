// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// agree_on_loss() or agree_on_timeout(), by what Gloo threw in dealing with `partner`.
Error agree_on_failure(GroupContext& context, const std::string& where, int partner,
                       const std::exception& failure);

/// What Gloo says, without the place in its source that it puts in front.
std::string what_gloo_says(const std::exception& failure);

}  // namespace ddp::internal
