// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "base/error.h"
#include "rendezvous/endpoint.h"

namespace ddprun::rendezvous {

/// The addresses `endpoint` stands for, in the resolver's order; an empty host is every address of
/// this host. Blocks while a name is looked up; an address needs no look-up.
/// Errors: unreachable (the name does not resolve).
Result<std::vector<boost::asio::ip::tcp::endpoint>> resolve(const Endpoint& endpoint);

/// Whether `address` is one of this host's: of an interface, a loopback address, or the unspecified
/// one.
bool is_own_address(const boost::asio::ip::address& address);

/// A TCP port that nobody listens on at `address` right now. Nothing keeps it free. Errors: system.
Result<std::uint16_t> free_port(const boost::asio::ip::address& address);

}  // namespace ddprun::rendezvous
