// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/facts.h"

// The interface that a library takes, by its own rules. Pure.

namespace ddprun::doctor {

/// The interface that NCCL takes first for its connections: the first one that `told`
/// (NCCL_SOCKET_IFNAME, or empty) admits, else one whose name begins with "ib", else any that is
/// neither docker's nor loopback, else docker's, else loopback. An empty interface: none.
Interface nccl_interface(const std::vector<Interface>& interfaces, std::string_view told);

/// The first interface with this name, or with this address; an empty interface: none.
Interface interface_named(const std::vector<Interface>& interfaces, std::string_view name);
Interface interface_with(const std::vector<Interface>& interfaces, std::string_view address);

}  // namespace ddprun::doctor
