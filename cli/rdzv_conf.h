// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "agent/job_spec.h"
#include "base/error.h"

namespace ddprun::cli {

/// Sets `job` from the value of torchrun's --rdzv_conf, "key=value,key=value". Keys for things that
/// ddprun does not have are accepted without effect.
///
/// Errors: usage, worded to follow the flag's name: "has no key 'x'; did you mean y?".
Result<> set_rdzv_conf(std::string_view text, agent::JobSpec& job);

}  // namespace ddprun::cli
