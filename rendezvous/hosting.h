// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/endpoint.h"

namespace ddprun::rendezvous {

/// Where the rendezvous of `endpoint` listens if this host is to have it; nullopt: it lives on
/// another one. `addresses` are what the endpoint stands for; `is_host` overrides what they say.
///
/// A host's own name often stands for a loopback address there (Debian's 127.0.1.1), and an address
/// that the user says is ours may be translated on the way: then it listens on every address, for
/// only so the others can reach it.
std::optional<Endpoint> where_to_host(const Endpoint& endpoint,
                                      const std::vector<boost::asio::ip::tcp::endpoint>& addresses,
                                      std::optional<bool> is_host);

}  // namespace ddprun::rendezvous
