// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/unix_socket.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace ddprun::agent {
namespace {

struct Question {
  nlmsghdr header;
  unix_diag_req body;
};

bool request_list(int netlink) {
  Question question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.body.sdiag_family = AF_UNIX;
  question.body.udiag_states = ~0U;
  question.body.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  return send(netlink, &question, sizeof question, 0) == sizeof question;
}

/// A socket in the kernel's answer. Sockets of different types may have the same name.
struct Listed {
  std::string_view name;
  std::uint8_t type = 0;
  std::optional<uid_t> user;
  std::uint32_t inode = 0;
};

Listed decode(const nlmsghdr* message) {
  Listed listed;
  auto size = static_cast<int>(message->nlmsg_len - NLMSG_LENGTH(sizeof(unix_diag_msg)));
  const char* bytes = static_cast<const char*>(NLMSG_DATA(message));
  unix_diag_msg head;
  std::memcpy(&head, bytes, sizeof head);
  listed.type = head.udiag_type;
  listed.inode = head.udiag_ino;
  bytes += NLMSG_ALIGN(sizeof head);
  for (const auto* field = reinterpret_cast<const rtattr*>(bytes); RTA_OK(field, size);
       field = RTA_NEXT(field, size)) {
    const auto* content = static_cast<const char*>(RTA_DATA(field));
    if (field->rta_type == UNIX_DIAG_NAME) listed.name = {content, RTA_PAYLOAD(field)};
    if (field->rta_type == UNIX_DIAG_UID && RTA_PAYLOAD(field) == sizeof(uid_t)) {
      std::memcpy(&listed.user.emplace(), content, sizeof(uid_t));
    }
  }
  return listed;
}

}  // namespace

bool bind_to(const Fd& socket, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof address.sun_path);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

std::optional<AbstractSocket> abstract_socket(std::string_view name) {
  const Fd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink || !request_list(netlink.get())) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 32'768> part;  // as much as the kernel gives at once
  for (;;) {
    auto size = static_cast<int>(recv(netlink.get(), part.data(), part.size(), 0));
    if (size <= 0) return std::nullopt;
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(part.data());
         NLMSG_OK(message, static_cast<unsigned>(size)); message = NLMSG_NEXT(message, size)) {
      if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // the end, or an error
      const Listed listed = decode(message);
      if (listed.name != name || listed.type != SOCK_STREAM) continue;
      if (listed.user) return AbstractSocket{*listed.user, listed.inode};
    }
  }
}

}  // namespace ddprun::agent
