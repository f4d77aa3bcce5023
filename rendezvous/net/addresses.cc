// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/addresses.h"

#include <algorithm>
#include <array>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <random>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

#include "store/owner_lookup.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// Binds `endpoint`, frees it again, and returns its port; for port 0 the kernel chooses one.
Result<std::uint16_t> bind_once(const tcp::endpoint& endpoint) {
  asio::io_context context;
  tcp::acceptor acceptor(context);
  boost::system::error_code failure;
  acceptor.open(endpoint.protocol(), failure);
  if (!failure) acceptor.bind(endpoint, failure);
  tcp::endpoint bound;
  if (!failure) bound = acceptor.local_endpoint(failure);
  if (failure) {
    const std::string where = endpoint.address().to_string();
    return os_error("cannot find a free port at " + where, failure.value());
  }
  return bound.port();
}

/// Whether only this host can reach itself by this name: "localhost", "127.0.0.1".
bool means_loopback(const std::string& host) {
  boost::system::error_code not_an_address;
  boost::asio::ip::make_address(host, not_an_address);
  return !not_an_address || host == "localhost" || host.ends_with(".localhost");
}

/// The address in `of`; nullopt: it is not of IP.
std::optional<asio::ip::address> ip_address(const sockaddr& of) {
  if (of.sa_family == AF_INET) {
    return asio::ip::address_v4(ntohl(reinterpret_cast<const sockaddr_in*>(&of)->sin_addr.s_addr));
  }
  if (of.sa_family != AF_INET6) return std::nullopt;
  const auto& own = reinterpret_cast<const sockaddr_in6&>(of);
  return asio::ip::address_v6(std::to_array(own.sin6_addr.s6_addr), own.sin6_scope_id);
}

struct InterfaceAddress {
  std::string interface;
  asio::ip::address address;  ///< a link-local one with the interface's number as its scope
};

/// The addresses of all interfaces; empty if the kernel does not say.
std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const auto address = entry->ifa_addr ? ip_address(*entry->ifa_addr) : std::nullopt;
    if (address) addresses.push_back({entry->ifa_name, *address});
  }
  return addresses;
}

bool is_link_local(const asio::ip::address& address) {
  return address.is_v6() && address.to_v6().is_link_local();
}

bool is_same(const asio::ip::address& one, const asio::ip::address& other) {
  if (one.is_v4() || other.is_v4()) return one == other;
  return one.to_v6().to_bytes() == other.to_v6().to_bytes();  // the zone does not matter
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
  const auto own = interface_addresses();
  return std::any_of(own.begin(), own.end(),
                     [&](const auto& each) { return is_same(each.address, address); });
}

std::string plain_text(const asio::ip::address& address) {
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string()
                : address.to_string();
}

std::vector<std::string> own_addresses(std::size_t most) {
  std::vector<InterfaceAddress> own = interface_addresses();
  std::erase_if(own, [](const auto& each) { return each.address.is_loopback(); });
  // A host has as many link-local addresses as it has containers.
  std::stable_partition(own.begin(), own.end(),
                        [](const auto& each) { return !is_link_local(each.address); });
  own.resize(std::min(own.size(), most));
  std::vector<std::string> texts;
  for (const auto& each : own) texts.push_back(store::address_text(each.address));
  return texts;
}

std::string interface_of(const asio::ip::address& own) {
  if (own.is_loopback()) return "";
  const auto all = interface_addresses();
  const auto found =
      std::ranges::find_if(all, [&own](const auto& each) { return is_same(each.address, own); });
  return found == all.end() ? "" : found->interface;
}

std::vector<std::string> link_local_interfaces() {
  std::vector<std::string> names;
  for (const auto& [interface, address] : interface_addresses()) {
    const bool is_new = std::ranges::count(names, interface) == 0;
    if (is_link_local(address) && is_new) names.push_back(interface);
  }
  return names;
}

std::string interface_towards(const asio::ip::address& peer) {
  using asio::ip::udp;
  constexpr std::uint16_t kAnyPort = 9;
  asio::io_context context;
  udp::socket socket(context);
  boost::system::error_code failure;
  const udp::endpoint there(peer, kAnyPort);
  socket.open(there.protocol(), failure);
  if (!failure) socket.connect(there, failure);  // only chooses the route
  const udp::endpoint here = failure ? udp::endpoint() : socket.local_endpoint(failure);
  return failure ? "" : interface_of(here.address());
}

Result<std::uint16_t> free_port(const asio::ip::address& address) {
  constexpr std::uint16_t kFirst = 20'000, kPorts = 9'000;
  constexpr int kTries = 16;
  std::random_device random;
  std::uniform_int_distribution<int> below(0, kPorts - 1);
  for (int i = 0; i < kTries; ++i) {
    const auto port = bind_once({address, static_cast<std::uint16_t>(kFirst + below(random))});
    if (port) return port;
  }
  return bind_once({address, 0});
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

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

void Resolver::resolve(const Endpoint& endpoint, Hook resolved) {
  look_up_ = std::make_unique<AsyncJobs>(executor_);
  look_up_->run([endpoint] { return rendezvous::resolve(endpoint); }, std::move(resolved));
}

}  // namespace ddprun::rendezvous
