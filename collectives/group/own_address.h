// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ddp/store.h"

namespace ddp::internal {

/// The numeric address of this host at which other ranks reach this one: that of the interface that
/// the variable GLOO_SOCKET_IFNAME names (the first of a list that this host has), as for PyTorch;
/// else the one by which the users of the store reach this host. `backend`: as in Options. Throws
/// ddp::Error of kind usage: there is no such interface, or it has no address; not for mpi, which
/// needs none.
std::string own_address(const Store& store, const std::string& backend);

}  // namespace ddp::internal
