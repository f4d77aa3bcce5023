// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "rendezvous/resolver.h"

namespace ddprun::rendezvous {

/// The process of this host that listens at one of `addresses`, for people: "another program of
/// this host, python3 (pid 4711)", "another ddprun of this host (pid 4711)"; what the kernel does
/// not tell is left out. Looks at all processes, so it takes some milliseconds. For any thread.
std::string port_owner(const Resolver::Addresses& addresses);

}  // namespace ddprun::rendezvous
