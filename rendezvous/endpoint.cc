// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/endpoint.h"

namespace ddprun::rendezvous {

std::string Endpoint::text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace ddprun::rendezvous
