// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <netdb.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

// Input and output with a deadline, for threads that may block. An int that a function returns is 0
// or an errno, ETIMEDOUT at the deadline. Sockets need not be in non-blocking mode, except to
// connect. They raise no SIGPIPE.

namespace ddprun {

using Deadline = std::chrono::steady_clock::time_point;

/// Returns the time until `deadline` as poll(2) wants it, rounded up; 0: it has passed.
int poll_time(Deadline deadline);

/// Waits until `fd` is ready for `events` of poll(2).
int wait_for(int fd, short events, Deadline deadline);

int send_all(const Fd& socket, std::string_view bytes, Deadline deadline);

/// Receives as many bytes as there are, and waits for the first one. `size` 0: the end of the data.
int receive_some(const Fd& socket, std::span<char> bytes, Deadline deadline, size_t& size);

/// Fills `bytes`. ENODATA: the data ended before.
int receive_all(const Fd& socket, std::span<char> bytes, Deadline deadline);

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Returns the addresses of a host, by its name or address, for TCP. Blocks as long as the resolver
/// does. Errors: usage, with the resolver's reason alone.
Result<AddressList> resolve(const std::string& host, std::uint16_t port);

int connect_to(const sockaddr* address, socklen_t size, const Fd& socket, Deadline deadline);

/// Connects to the first of `addresses` that answers, without Nagle's delay, or returns the error
/// of the last one. After an error `socket` is empty only if the system has none left.
int connect_to(const addrinfo& addresses, Deadline deadline, Fd& socket);

}  // namespace ddprun
