// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/addresses.h"

#include <algorithm>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <string>

#include <boost/asio/io_context.hpp>

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// Whether the user named this host as one that only it can reach: "localhost", "127.0.0.1".
bool means_loopback(const std::string& host) {
  boost::system::error_code not_an_address;
  boost::asio::ip::make_address(host, not_an_address);
  return !not_an_address || host == "localhost" || host.ends_with(".localhost");
}

/// An IPv6 socket takes IPv4 as well; a host without IPv6 has only the other.
std::vector<tcp::endpoint> every_address(std::uint16_t port) {
  return {{asio::ip::address_v6::any(), port}, {asio::ip::address_v4::any(), port}};
}

}  // namespace

Result<std::vector<tcp::endpoint>> resolve(const Endpoint& endpoint) {
  if (endpoint.host.empty()) return every_address(endpoint.port);
  boost::system::error_code failure;
  const asio::ip::address address = asio::ip::make_address(endpoint.host, failure);
  if (!failure) return std::vector<tcp::endpoint>{{address, endpoint.port}};

  asio::io_context context;
  tcp::resolver resolver(context);
  const auto results = resolver.resolve(endpoint.host, std::to_string(endpoint.port), failure);
  if (failure) {
    return Error{Errc::unreachable,
                 "the host name '" + endpoint.host + "' does not resolve: " + failure.message()};
  }
  std::vector<tcp::endpoint> endpoints;
  for (const auto& result : results) endpoints.push_back(result.endpoint());
  return endpoints;
}

bool is_own_address(const asio::ip::address& address) {
  if (address.is_loopback() || address.is_unspecified()) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (address.is_v4() && entry->ifa_addr->sa_family == AF_INET) {
      const auto* own = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      if (ntohl(own->sin_addr.s_addr) == address.to_v4().to_uint()) return true;
    }
    if (address.is_v6() && entry->ifa_addr->sa_family == AF_INET6) {
      const auto* own = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      asio::ip::address_v6::bytes_type bytes;
      std::copy_n(own->sin6_addr.s6_addr, bytes.size(), bytes.begin());
      if (bytes == address.to_v6().to_bytes()) return true;
    }
  }
  return false;
}

std::string plain_text(const asio::ip::address& address) {
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string()
                : address.to_string();
}

Result<std::uint16_t> free_port(const asio::ip::address& address) {
  asio::io_context context;
  tcp::acceptor acceptor(context);
  boost::system::error_code failure;
  acceptor.open(tcp::endpoint(address, 0).protocol(), failure);
  if (!failure) acceptor.bind({address, 0}, failure);
  tcp::endpoint bound;
  if (!failure) bound = acceptor.local_endpoint(failure);
  if (failure)
    return os_error("cannot find a free port at " + address.to_string(), failure.value());
  return bound.port();
}

std::optional<std::vector<tcp::endpoint>> where_to_host(const Endpoint& endpoint,
                                                        const std::vector<tcp::endpoint>& addresses,
                                                        std::optional<bool> is_host) {
  const auto own = [](const auto& address) { return is_own_address(address.address()); };
  const auto loopback = [](const auto& address) { return address.address().is_loopback(); };
  const bool ours = std::any_of(addresses.begin(), addresses.end(), own);
  if (!is_host.value_or(ours)) return std::nullopt;
  const bool only_loopback = std::all_of(addresses.begin(), addresses.end(), loopback);
  if (!ours || (only_loopback && !means_loopback(endpoint.host))) {
    return every_address(endpoint.port);
  }
  return addresses;
}

}  // namespace ddprun::rendezvous
