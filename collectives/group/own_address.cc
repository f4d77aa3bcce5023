// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/own_address.h"

#include <array>
#include <cstdlib>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "ddp/error.h"
#include "ddp/tcp_store.h"

namespace ddp::internal {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// Numeric; empty for another family than IP.
std::string text_of(const sockaddr& address) {
  const bool is_v4 = address.sa_family == AF_INET;
  if (!is_v4 && address.sa_family != AF_INET6) return "";
  const socklen_t size = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  const int rc =
      ::getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return rc == 0 ? text.data() : "";
}

/// The address of this host's interface on the way to `other`, a numeric address or a name; empty:
/// there is no way. Sends nothing to it.
std::string address_on_the_way_to(const std::string& other) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(other.c_str(), "9", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  const ddprun::Fd socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  const bool is_known = ::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 &&
                        ::getsockname(socket.get(), address, &size) == 0;
  return is_known ? text_of(*address) : "";
}

/// The address of the interface of this host's default route.
std::string address_of_host() {
  const std::string address = address_on_the_way_to("192.0.2.1");  // of no host (RFC 5737)
  return address.empty() ? "127.0.0.1" : address;
}

/// Where the agent of this node carries the store's connections to the master, they come from the
/// loopback interface: then the way to the master decides.
std::string address_towards(const TcpStore& store) {
  const std::string& own = store.local_address();
  const char* const master = std::getenv("DDPRUN_MASTER_ADDR");
  if (master == nullptr || !is_loopback(own)) return own;
  const std::string address = address_on_the_way_to(master);
  return address.empty() ? own : address;
}

/// The address of this host by which the users of the store reach it.
std::string address_towards(const std::shared_ptr<Store>& store) {
  if (const auto tcp = std::dynamic_pointer_cast<TcpStore>(store)) return address_towards(*tcp);
  if (const auto prefix = std::dynamic_pointer_cast<PrefixStore>(store)) {
    return address_towards(prefix->underlying());
  }
  if (std::dynamic_pointer_cast<HashStore>(store)) return "127.0.0.1";
  return address_of_host();
}

/// The first of those that the variable names, as PyTorch takes several.
std::string interface_of_environment() {
  const char* const named = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string names = named == nullptr ? "" : named;
  return names.substr(0, names.find(','));
}

bool is_v6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

}  // namespace

std::string address_of_interface(const std::string& name, const std::string& preferred) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::string found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || name != entry->ifa_name) continue;
    std::string address = text_of(*entry->ifa_addr);
    if (address == preferred) return address;
    const bool fits = !address.empty() && is_v6(address) == is_v6(preferred);
    if (found.empty() || (fits && is_v6(found) != is_v6(preferred))) found = std::move(address);
  }
  return found;
}

std::string own_address(const std::shared_ptr<Store>& store) {
  std::string towards_store = address_towards(store);
  const std::string interface = interface_of_environment();
  if (interface.empty() || std::dynamic_pointer_cast<HashStore>(store)) return towards_store;
  std::string address = address_of_interface(interface, towards_store);
  if (!address.empty()) return address;
  throw Error(
      ErrorKind::usage,
      "ddp: GLOO_SOCKET_IFNAME=" + interface +
          " names no interface of this host with an address: see `ip address`, or unset it");
}

}  // namespace ddp::internal
