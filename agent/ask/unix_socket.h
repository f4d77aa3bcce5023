// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/fd.h"

namespace ddprun::agent {

/// Binds `socket` to a path, or to a name that is in no folder and begins with a zero byte. False,
/// with errno, on failure.
bool bind_to(const Fd& socket, const std::string& name);

/// A stream socket with a name that is in no folder.
struct AbstractSocket {
  uid_t user = 0;
  std::uint32_t inode = 0;
};

/// The one with `name`, which begins with a zero byte, in this network's namespace, by unix_diag;
/// nullopt: there is none, or the kernel does not tell.
std::optional<AbstractSocket> abstract_socket(std::string_view name);

}  // namespace ddprun::agent
