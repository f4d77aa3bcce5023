// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/fd.h"

// Blocking reads and writes of a socket with a deadline.

namespace ddprun::doctor {

using Clock = std::chrono::steady_clock;

/// Returns 0 or an errno: ETIMEDOUT at the deadline, ECONNRESET if the other end hung up.
int send_all(const Fd& socket, std::span<const char> bytes, Clock::time_point deadline);
int receive_all(const Fd& socket, std::span<char> bytes, Clock::time_point deadline);

/// Waits until `socket` is ready for `events` of poll(2). Returns 0 or an errno, as above.
int wait_for(const Fd& socket, short events, Clock::time_point deadline);

/// Connects to a numeric address or a name. Returns 0 or an errno. If the name is unknown, `reason`
/// gets the resolver's text.
int connect_to(const std::string& host, std::uint16_t port, Clock::time_point deadline, Fd& socket,
               std::string& reason);

}  // namespace ddprun::doctor
