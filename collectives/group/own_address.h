// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ddp/store.h"

namespace ddp::internal {

/// Returns the numeric address at which other ranks reach this host. GLOO_SOCKET_IFNAME may name
/// its interface (the first of a list that this host has), as for PyTorch. Else it is the address
/// by which the users of the store reach this host. `backend`: as in Options; for mpi, which needs
/// no address, the variable is ignored. Throws ddp::Error of kind usage if there is no such
/// interface, or it has no address.
std::string own_address(const Store& store, const std::string& backend);

}  // namespace ddp::internal
