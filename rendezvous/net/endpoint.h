// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/text.h"

namespace ddprun::rendezvous {

/// A server's place as the user names it: a host name or an address, IPv4 or IPv6, without
/// brackets.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  /// "host:port", an IPv6 address in brackets.
  std::string text() const { return endpoint_text(host, port); }
};

}  // namespace ddprun::rendezvous
