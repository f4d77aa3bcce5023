// SPDX-License-Identifier: Apache-2.0
#include "store/owner_lookup.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "base/file_text.h"
#include "base/log.h"

namespace ddprun::store {
namespace {

/// The kernel's answer to one look-up.
struct KernelAnswer {
  bool given = false;  ///< false: the kernel answers no such questions
  KernelSockets sockets{};
};

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

/// The zones in which a link-local `address`, given without zone, is this host's: numbers of its
/// interfaces. Empty for any other address.
std::vector<std::uint32_t> zones_of(const std::string& address) {
  in6_addr wanted{};
  const bool is_six = inet_pton(AF_INET6, address.c_str(), &wanted) == 1;
  ifaddrs* list = nullptr;
  if (!is_six || !IN6_IS_ADDR_LINKLOCAL(&wanted) || getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<std::uint32_t> zones;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET6) continue;
    const auto* own = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    const bool is_same = std::memcmp(&own->sin6_addr, &wanted, sizeof wanted) == 0;
    if (is_same) zones.push_back(own->sin6_scope_id);
  }
  return zones;
}

/// `zone`: that of a link-local address; else 0.
Question question_for(const SocketEnds& ends, std::uint32_t zone) {
  Question question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0U;
  inet_diag_sockid& id = question.body.id;
  id.idiag_sport = htons(ends.from_port);
  id.idiag_dport = htons(ends.to_port);
  id.idiag_if = zone;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const bool four = inet_pton(AF_INET, ends.from.c_str(), id.idiag_src) == 1 &&
                    inet_pton(AF_INET, ends.to.c_str(), id.idiag_dst) == 1;
  question.body.sdiag_family = four ? AF_INET : AF_INET6;
  if (!four) {
    inet_pton(AF_INET6, ends.from.c_str(), id.idiag_src);
    inet_pton(AF_INET6, ends.to.c_str(), id.idiag_dst);
  }
  return question;
}

/// If there is no such connection, the kernel answers with a socket that listens at `from`.
KernelAnswer decode_answer(const char* bytes, const SocketEnds& ends) {
  nlmsghdr header{};
  std::memcpy(&header, bytes, sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    std::memcpy(&error, bytes + sizeof header, sizeof error);
    return {error.error == -ENOENT};
  }
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
  inet_diag_msg message{};
  std::memcpy(&message, bytes + sizeof header, sizeof message);
  const bool listens = message.id.idiag_dport != htons(ends.to_port);
  if (listens) return {true};
  return {true, {KernelSocket{message.idiag_uid, message.idiag_inode}}};
}

/// The kernel answers while it takes the question.
KernelAnswer ask(int netlink, const SocketEnds& ends, std::uint32_t zone = 0) {
  const Question question = question_for(ends, zone);
  std::array<char, 1024> reply{};
  if (send(netlink, &question, sizeof question, MSG_DONTWAIT) < 0) return {};
  const ssize_t size = recv(netlink, reply.data(), reply.size(), MSG_DONTWAIT);
  constexpr std::size_t kLeast = sizeof(nlmsghdr) + sizeof(nlmsgerr);
  return size < static_cast<ssize_t>(kLeast) ? KernelAnswer{} : decode_answer(reply.data(), ends);
}

/// Asks also in each zone where `from` is this host's. The kernel finds such a socket only in its
/// own zone. Another zone may have another user's socket with the same ends.
KernelAnswer ask_in_zones(int netlink, const SocketEnds& ends) {
  KernelAnswer all = ask(netlink, ends);
  for (const std::uint32_t zone : zones_of(ends.from)) {
    if (!all.given) return all;
    const KernelAnswer here = ask(netlink, ends, zone);
    all.given = here.given;
    all.sockets.insert(all.sockets.end(), here.sockets.begin(), here.sockets.end());
  }
  return all;
}

/// Whether the kernel finds an existing socket: without its module it finds none.
bool answers(int netlink) {
  const Fd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (!listening || bind(listening.get(), plain, size) != 0 || listen(listening.get(), 1) != 0 ||
      getsockname(listening.get(), plain, &size) != 0) {
    return false;
  }
  return ask(netlink, {"127.0.0.1", ntohs(address.sin_port), "0.0.0.0", 0}).sockets.size() == 1;
}

/// Finds the connections in /proc/net. Call it in a thread: a table of many connections takes
/// milliseconds. nullopt: there is no table.
std::optional<std::vector<KernelSockets>> read_table(const std::vector<SocketEnds>& connections) {
  std::string table = file_text("/proc/net/tcp");
  if (table.empty()) return std::nullopt;
  table += file_text("/proc/net/tcp6");
  std::vector<KernelSockets> sockets;
  for (const SocketEnds& ends : connections) sockets.push_back(find_in_table(table, ends));
  return sockets;
}

bool can_tell_users_apart(std::uint32_t user) {
  const std::string overflow = file_text("/proc/sys/kernel/overflowuid");
  constexpr std::uint32_t kUsual = 65'534;
  const std::uint32_t shared =
      overflow.empty() ? kUsual
                       : static_cast<std::uint32_t>(std::strtoul(overflow.c_str(), {}, 10));
  return user != shared || is_distinct(user, shared, file_text("/proc/self/uid_map"));
}

}  // namespace

namespace ip = boost::asio::ip;

std::string address_text(const ip::address& address) {
  if (address.is_v4()) return address.to_string();
  ip::address_v6 six = address.to_v6();
  if (six.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, six).to_string();
  six.scope_id(0);
  return six.to_string();
}

SocketEnds ends_of(const ip::tcp::socket& accepted) {
  boost::system::error_code gone;  // then no process holds the other end
  const ip::tcp::endpoint from = accepted.remote_endpoint(gone);
  const ip::tcp::endpoint to = accepted.local_endpoint(gone);
  return {address_text(from.address()), from.port(), address_text(to.address()), to.port()};
}

OwnerLookup::OwnerLookup(boost::asio::any_io_executor executor)
    : user_(geteuid()), jobs_(std::move(executor)) {}

bool OwnerLookup::open() {
  if (std::exchange(opened_, true)) return static_cast<bool>(netlink_);
  tells_users_apart_ = can_tell_users_apart(user_);
  netlink_ = Fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (netlink_ && !answers(netlink_.get())) netlink_.reset();
  return static_cast<bool>(netlink_);
}

std::optional<SocketOwner> OwnerLookup::at_once(const SocketEnds& ends) {
  if (!open()) return std::nullopt;
  const KernelAnswer answer = ask_in_zones(netlink_.get(), ends);
  if (!answer.given) return std::nullopt;
  return judge(answer.sockets);
}

SocketOwner OwnerLookup::judge(const KernelSockets& found) {
  const SocketOwner owner = owner_of(found, user_);
  const bool ours = owner.kind == SocketOwner::Kind::ours;
  return ours && !tells_users_apart_ ? unknown() : owner;
}

SocketOwner OwnerLookup::unknown() {
  if (!std::exchange(said_unknown_, true)) {
    log::debug("cannot look up owners of connections on this host: no local user is refused");
  }
  return {};
}

void OwnerLookup::look_up(std::vector<SocketEnds> connections, Found found) {
  std::vector<SocketOwner> owners;
  for (const SocketEnds& ends : connections) {
    const auto owner = at_once(ends);
    if (!owner) break;
    owners.push_back(*owner);
  }
  if (owners.size() == connections.size()) return found(owners);
  const std::size_t count = connections.size();
  jobs_.run([connections = std::move(connections)] { return read_table(connections); },
            [this, count, found = std::move(found)](const auto& sockets) {
              std::vector<SocketOwner> judged;
              for (std::size_t i = 0; i < count; ++i) {
                judged.push_back(sockets ? judge((*sockets)[i]) : unknown());
              }
              found(judged);
            });
}

}  // namespace ddprun::store
