// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::bench {

/// The payload of TCP connections, in bytes, counted by the kernel.
struct Traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// The traffic of all connections that this process has open.
Traffic tcp_traffic();

}  // namespace ddprun::bench
