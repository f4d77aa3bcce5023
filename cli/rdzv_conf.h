// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "agent/job_spec.h"
#include "base/error.h"

namespace ddprun::cli {

/// Takes what torchrun's --rdzv_conf says, "key=value,key=value", into `job`. Keys that tune what
/// ddprun has no use for are taken without effect.
///
/// Errors: usage, to follow the flag's name: "has no key 'x'; did you mean y?".
Result<> set_rdzv_conf(std::string_view text, agent::JobSpec& job);

}  // namespace ddprun::cli
