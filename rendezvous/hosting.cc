// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/hosting.h"

#include <algorithm>
#include <string>

#include "rendezvous/addresses.h"

namespace ddprun::rendezvous {
namespace {

/// Whether the user named this host as one that only it can reach: "localhost", "127.0.0.1".
bool means_loopback(const std::string& host) {
  boost::system::error_code not_an_address;
  boost::asio::ip::make_address(host, not_an_address);
  return !not_an_address || host == "localhost" || host.ends_with(".localhost");
}

}  // namespace

std::optional<Endpoint> where_to_host(const Endpoint& endpoint,
                                      const std::vector<boost::asio::ip::tcp::endpoint>& addresses,
                                      std::optional<bool> is_host) {
  const auto own = [](const auto& address) { return is_own_address(address.address()); };
  const auto loopback = [](const auto& address) { return address.address().is_loopback(); };
  const bool ours = std::any_of(addresses.begin(), addresses.end(), own);
  if (!is_host.value_or(ours)) return std::nullopt;
  const bool only_loopback = std::all_of(addresses.begin(), addresses.end(), loopback);
  if (!ours || (only_loopback && !means_loopback(endpoint.host)))
    return Endpoint{"", endpoint.port};
  return endpoint;
}

}  // namespace ddprun::rendezvous
