// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::rendezvous {

/// A control connection's number in the process that holds it.
using ConnectionId = std::uint64_t;

}  // namespace ddprun::rendezvous
