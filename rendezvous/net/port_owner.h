// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/net/addresses.h"

namespace ddprun::rendezvous {

/// Names the process of this host that has the socket with this inode (0: unknown): "another
/// program of this host, python3 (pid 4711)", "another ddprun of this host (pid 4711)". Leaves out
/// facts that the kernel does not show. Looks at all processes, which takes some milliseconds. For
/// any thread.
std::string socket_owner(std::uint64_t inode);

/// The same for the process that listens at one of `addresses`.
std::string port_owner(const Resolver::Addresses& addresses);

}  // namespace ddprun::rendezvous
