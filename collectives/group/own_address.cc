// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/own_address.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <vector>

#include "base/fd.h"
#include "ddp/error.h"
#include "ddp/tcp_store.h"

namespace ddp::internal {
namespace {

constexpr const char* kVariable = "GLOO_SOCKET_IFNAME";

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// Returns an empty text if this is no IP address.
std::string text_of(const sockaddr& address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const bool is_known =
      ::getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return is_known ? text.data() : "";
}

/// Returns the address of this host's interface on the way to `other`, a numeric address or a name;
/// empty if there is no way. Sends nothing to it.
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
  return is_known ? text_of(*address, size) : "";
}

/// Returns the address of the interface of this host's default route.
std::string address_of_host() {
  const std::string address = address_on_the_way_to("192.0.2.1");  // no host has it (RFC 5737)
  return address.empty() ? "127.0.0.1" : address;
}

/// If this node's agent carries the store's connections to the master, they come from the loopback
/// interface. Then the way to the master decides.
std::string address_towards(const TcpStore& store) {
  const std::string& own = store.local_address();
  const char* const master = std::getenv("DDPRUN_MASTER_ADDR");
  if (master == nullptr || !is_loopback(own)) return own;
  const std::string address = address_on_the_way_to(master);
  return address.empty() ? own : address;
}

/// Returns the address of this host by which the users of the store reach it.
std::string address_towards(const Store& store) {
  if (const auto* const tcp = dynamic_cast<const TcpStore*>(&store)) return address_towards(*tcp);
  if (const auto* const prefix = dynamic_cast<const PrefixStore*>(&store)) {
    return address_towards(*prefix->underlying());
  }
  if (dynamic_cast<const HashStore*>(&store) != nullptr) return "127.0.0.1";
  return address_of_host();
}

/// An address of an interface of this host.
struct Own {
  std::string interface;
  std::string address;
  int rank = 0;  ///< the lowest is taken first
};

/// Ranks IPv4 first, and link-local addresses, which may mean another host there, last.
int rank_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) return 0;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? 2 : 1;
}

std::vector<Own> list_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  std::vector<Own> all;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    all.push_back({one->ifa_name, text_of(*one->ifa_addr, size), rank_of(*one->ifa_addr)});
  }
  std::ranges::stable_sort(all, {}, &Own::rank);
  return all;
}

[[noreturn]] void refuse_interface(const std::string& wanted, const std::vector<Own>& all) {
  std::set<std::string> names;
  for (const Own& one : all) names.insert(one.interface);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  throw Error(ErrorKind::usage,
              std::string("ddp: ") + kVariable + "=" + wanted +
                  ": this host has no such interface with an IP address; it has " +
                  (text.empty() ? "none" : text));
}

/// Returns an address of the first listed interface that this host has: `towards`, if it is one.
std::string address_of(const std::string& wanted, const std::string& towards) {
  const std::vector<Own> all = list_addresses();
  std::istringstream names(wanted);
  for (std::string name; std::getline(names, name, ',');) {
    std::string found;
    for (const Own& one : all) {
      if (one.interface != name) continue;
      if (found.empty() || one.address == towards) found = one.address;
    }
    if (!found.empty()) return found;
  }
  refuse_interface(wanted, all);
}

}  // namespace

std::string own_address(const Store& store, const std::string& backend) {
  const std::string towards = address_towards(store);
  const char* const wanted = std::getenv(kVariable);
  if (wanted == nullptr || *wanted == '\0' || backend == "mpi") return towards;
  return address_of(wanted, towards);
}

}  // namespace ddp::internal
