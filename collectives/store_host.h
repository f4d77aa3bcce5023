// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddp::internal {

/// Serves the job's store in this process, in a thread of its own, from the first call until the
/// process ends: for rank 0 when no launcher serves one. Listens on loopback alone when `address`
/// is loopback, else on every address of the host. Later calls change nothing.
/// Throws ddp::Error when the port cannot be had.
void host_store(const std::string& address, std::uint16_t port);

}  // namespace ddp::internal
