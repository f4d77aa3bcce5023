// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "ddp/store.h"

namespace ddp::internal {

/// The address of this host at which it listens for the other ranks, numeric: of the interface that
/// GLOO_SOCKET_IFNAME names (as ddprun sets it from --local_addr), else of the one by which this
/// host reaches the store. Throws ddp::Error of kind usage if there is no such interface.
std::string own_address(const std::shared_ptr<Store>& store);

/// The address of an interface of this host; `preferred`, if it has that, else one of the same
/// family, if it has one. Empty: it has no address, or there is no such interface.
std::string address_of_interface(const std::string& name, const std::string& preferred);

}  // namespace ddp::internal
