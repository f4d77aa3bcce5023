// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <sys/types.h>

namespace ddprun::agent {

/// The rank of the worker that is this process or one of its ancestors; nullopt: no worker is.
/// `ranks` has the workers' ranks by pid.
std::optional<int> rank_of(pid_t pid, const std::map<pid_t, int>& ranks);

}  // namespace ddprun::agent
