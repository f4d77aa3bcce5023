// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace ddprun::tests {

/// A port of 127.0.0.1 without a listener. It is below the ports that the kernel assigns
/// (ip_local_port_range, ip(7)), so that no other test gets it before it is used.
inline std::uint16_t unused_port() {
  boost::asio::io_context context;
  std::random_device random;
  std::uniform_int_distribution<std::uint16_t> ports(10'000, 32'000);
  for (;;) {
    const boost::asio::ip::tcp::endpoint place(boost::asio::ip::address_v4::loopback(),
                                               ports(random));
    boost::asio::ip::tcp::socket socket(context, place.protocol());
    boost::system::error_code taken;
    socket.bind(place, taken);
    if (!taken) return place.port();
  }
}

}  // namespace ddprun::tests
