// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/owner_lookup.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "base/log.h"

namespace ddprun::rendezvous {
namespace {

/// The kernel's answer to one look-up.
struct Answer {
  bool given = false;  ///< false: it answers no such questions
  std::optional<KernelSocket> socket;
};

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Request request_for(const SocketEnds& ends) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(ends.from_port);
  id.idiag_dport = htons(ends.to_port);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const bool four = inet_pton(AF_INET, ends.from.c_str(), id.idiag_src) == 1 &&
                    inet_pton(AF_INET, ends.to.c_str(), id.idiag_dst) == 1;
  request.body.sdiag_family = four ? AF_INET : AF_INET6;
  if (!four) {
    inet_pton(AF_INET6, ends.from.c_str(), id.idiag_src);
    inet_pton(AF_INET6, ends.to.c_str(), id.idiag_dst);
  }
  return request;
}

/// Where there is no such connection the kernel answers with a socket that listens at `from`.
Answer decode(const char* bytes, const SocketEnds& ends) {
  nlmsghdr header{};
  std::memcpy(&header, bytes, sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    std::memcpy(&error, bytes + sizeof header, sizeof error);
    return {error.error == -ENOENT, std::nullopt};
  }
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
  inet_diag_msg message{};
  std::memcpy(&message, bytes + sizeof header, sizeof message);
  const bool listens = message.id.idiag_dport != htons(ends.to_port);
  if (listens) return {true, std::nullopt};
  return {true, KernelSocket{message.idiag_uid, message.idiag_inode}};
}

/// The kernel answers while it takes the question.
Answer ask(int netlink, const SocketEnds& ends) {
  const Request request = request_for(ends);
  std::array<char, 1024> reply{};
  if (send(netlink, &request, sizeof request, MSG_DONTWAIT) < 0) return {};
  const ssize_t size = recv(netlink, reply.data(), reply.size(), MSG_DONTWAIT);
  constexpr std::size_t kLeast = sizeof(nlmsghdr) + sizeof(nlmsgerr);
  return size < static_cast<ssize_t>(kLeast) ? Answer{} : decode(reply.data(), ends);
}

/// Whether the kernel finds a socket that is there: without its module it finds none.
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
  return ask(netlink, {"127.0.0.1", ntohs(address.sin_port), "0.0.0.0", 0}).socket.has_value();
}

using Sockets = std::vector<std::optional<KernelSocket>>;

/// For a thread: a table of many connections takes milliseconds. nullopt: there is no table.
std::optional<Sockets> read_table(const std::vector<SocketEnds>& connections) {
  std::string table = text_of("/proc/net/tcp");
  if (table.empty()) return std::nullopt;
  table += text_of("/proc/net/tcp6");
  Sockets sockets;
  for (const SocketEnds& ends : connections) sockets.push_back(find_in_table(table, ends));
  return sockets;
}

bool can_tell_users_apart(std::uint32_t user) {
  const std::string overflow = text_of("/proc/sys/kernel/overflowuid");
  constexpr std::uint32_t kUsual = 65'534;
  const std::uint32_t shared =
      overflow.empty() ? kUsual
                       : static_cast<std::uint32_t>(std::strtoul(overflow.c_str(), {}, 10));
  return user != shared || is_distinct(user, shared, text_of("/proc/self/uid_map"));
}

}  // namespace

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
  const Answer answer = ask(netlink_.get(), ends);
  if (!answer.given) return std::nullopt;
  return judge(answer.socket);
}

SocketOwner OwnerLookup::judge(const std::optional<KernelSocket>& socket) {
  const SocketOwner owner = owner_of(socket, user_);
  const bool ours = owner.kind == SocketOwner::Kind::ours;
  return ours && !tells_users_apart_ ? unknown() : owner;
}

SocketOwner OwnerLookup::unknown() {
  if (!std::exchange(said_unknown_, true)) {
    log::debug("this host does not tell whose connections there are: nobody is refused for that");
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
            [this, count, found = std::move(found)](const std::optional<Sockets>& sockets) {
              std::vector<SocketOwner> judged;
              for (std::size_t i = 0; i < count; ++i) {
                judged.push_back(sockets ? judge((*sockets)[i]) : unknown());
              }
              found(judged);
            });
}

}  // namespace ddprun::rendezvous
