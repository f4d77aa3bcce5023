// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::rendezvous {

/// A control connection, as the process that holds it numbers its own.
using ConnectionId = std::uint64_t;

}  // namespace ddprun::rendezvous
