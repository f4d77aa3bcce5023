// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/fd.h"

namespace ddprun::agent {

/// Binds `socket` to a path, or to an abstract name: one in no folder, which begins with a zero
/// byte. Returns false, with errno, on failure.
bool bind_to(const Fd& socket, const std::string& name);

/// A stream socket with an abstract name.
struct AbstractSocket {
  uid_t user = 0;
  std::uint32_t inode = 0;
};

/// Finds the socket of this abstract name in the network namespace, by unix_diag. nullopt: there is
/// no such socket, or the kernel does not say.
std::optional<AbstractSocket> abstract_socket(std::string_view name);

}  // namespace ddprun::agent
