// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <poll.h>
#include <string>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>

#include "tests/catch.h"

namespace ddprun::tests {

/// This process's socket at the other end of a connection that it accepted from itself.
inline int other_end_of(const boost::asio::ip::tcp::socket& accepted) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    boost::asio::ip::tcp::endpoint own;
    auto length = static_cast<socklen_t>(own.capacity());
    if (::getsockname(fd, own.data(), &length) != 0 || length > own.capacity()) continue;
    own.resize(length);
    if (own == accepted.remote_endpoint()) return fd;
  }
  FAIL("the other end is not of this process");
  return -1;
}

/// Waits until there is something to read, or the connection has ended.
inline void wait_for_input(int fd) {
  pollfd polled{fd, POLLIN, 0};
  REQUIRE(::poll(&polled, 1, 40'000) == 1);
}

}  // namespace ddprun::tests
