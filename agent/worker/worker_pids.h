// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <sys/types.h>

namespace ddprun::agent {

/// The rank, in `ranks` by pid, of the worker that is this process or one of its ancestors: a
/// process that a worker has started counts for it. nullopt: none is.
std::optional<int> rank_of(pid_t pid, const std::map<pid_t, int>& ranks);

}  // namespace ddprun::agent
