// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <sys/types.h>

namespace ddprun::agent {

/// The user whose socket listens at `name`, which begins with a zero byte, in this network's
/// namespace, by unix_diag (Linux 5.3); nullopt: nobody's, or the kernel does not tell.
std::optional<uid_t> user_listening_at(std::string_view name);

}  // namespace ddprun::agent
