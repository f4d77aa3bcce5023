// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

#include "base/fd.h"
#include "base/file_text.h"
#include "cli/doctor/interfaces.h"
#include "cli/doctor/judge_node.h"
#include "cli/doctor/read_facts.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::doctor {
namespace {

/// The address as text, without a zone; empty: it is no IP address.
std::string numeric(const sockaddr* address) {
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::string text(NI_MAXHOST, '\0');
  if (getnameinfo(address, size, text.data(), NI_MAXHOST, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  text.resize(text.find('\0'));
  return text.substr(0, text.find('%'));
}

/// The interfaces that are up, without link-local addresses: libraries do not take these.
std::vector<Interface> read_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const std::string address = numeric(entry->ifa_addr);
    if (address.empty() || address.starts_with("fe80:")) continue;
    interfaces.push_back({entry->ifa_name, address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return interfaces;
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool can_bind(const addrinfo& address) {
  const Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket && bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0;
}

/// The first address of the host's name that is this host's: PyTorch takes it. `any` becomes the
/// first address of the name, if it is empty.
std::string bindable_address(const std::string& name, std::string& any) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const std::string address = numeric(entry->ai_addr);
    if (any.empty()) any = address;
    if (can_bind(*entry)) return address;
  }
  return "";
}

void note_unknown(Facts& facts, const char* name, const std::string& address) {
  const std::string_view told = variable(name);
  if (told.empty() || !address.empty()) return;
  facts.no_interface.push_back(std::string(name) + "=" + std::string(told));
}

void read_gloo(Facts& facts, const std::vector<Interface>& interfaces) {
  const std::string bindable = bindable_address(facts.host, facts.name_address);
  if (!bindable.empty()) facts.name_address = bindable;
  const std::string_view told = variable("GLOO_SOCKET_IFNAME");
  facts.gloo_is_set = !told.empty();
  facts.gloo_address = facts.gloo_is_set
                           ? interface_named(interfaces, told.substr(0, told.find(','))).address
                           : bindable;
  note_unknown(facts, "GLOO_SOCKET_IFNAME", facts.gloo_address);
}

}  // namespace

void read_network(Facts& facts, const std::string& way, const std::string& root) {
  if (facts.host.empty()) facts.host = rendezvous::host_name();
  const std::vector<Interface> interfaces = read_interfaces();
  read_gloo(facts, interfaces);
  const Interface nccl = nccl_interface(interfaces, variable("NCCL_SOCKET_IFNAME"));
  facts.nccl_interface = nccl.name;
  facts.nccl_address = nccl.address;
  note_unknown(facts, "NCCL_SOCKET_IFNAME", nccl.address);
  if (!is_loopback_address(way)) facts.way = way;
  // The rendezvous' own host may reach it by a loopback address, but the others do not.
  const bool by_name = facts.way.empty() && !is_loopback_address(facts.gloo_address);
  const std::string own = by_name ? facts.gloo_address : facts.way;
  facts.interface = own.empty() ? nccl.name : interface_with(interfaces, own).name;
  const std::string folder = root + "/sys/class/net/" + facts.interface + "/";
  facts.mtu = static_cast<int>(file_number(folder + "mtu").value_or(-1));
  facts.speed = static_cast<int>(file_number(folder + "speed").value_or(-1));
  if (facts.speed <= 0) facts.speed = -1;  // some interfaces say 0 or -1
  const bool is_real = !facts.interface.empty() && facts.interface != "lo";
  if (is_real && facts.mtu > 0) facts.traits["MTU"] = std::to_string(facts.mtu);
}

}  // namespace ddprun::doctor
