// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::bench {

/// Payload of TCP connections, in bytes; the kernel counts it.
struct Traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// Of all connections that this process has open.
Traffic tcp_traffic();

}  // namespace ddprun::bench
