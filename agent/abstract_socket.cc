// SPDX-License-Identifier: Apache-2.0
#include "agent/abstract_socket.h"

#include <array>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace ddprun::agent {
namespace {

struct Question {
  nlmsghdr header;
  unix_diag_req body;
};

bool ask(int netlink) {
  Question question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.body.sdiag_family = AF_UNIX;
  question.body.udiag_states = 1U << TCP_LISTEN;
  question.body.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  return send(netlink, &question, sizeof question, 0) == sizeof question;
}

/// A socket of the answer.
struct Listening {
  std::string_view name;
  std::optional<uid_t> user;
};

Listening decode(const nlmsghdr* message) {
  Listening listening;
  auto size = static_cast<int>(message->nlmsg_len - NLMSG_LENGTH(sizeof(unix_diag_msg)));
  const char* bytes =
      static_cast<const char*>(NLMSG_DATA(message)) + NLMSG_ALIGN(sizeof(unix_diag_msg));
  for (const auto* field = reinterpret_cast<const rtattr*>(bytes); RTA_OK(field, size);
       field = RTA_NEXT(field, size)) {
    const auto* content = static_cast<const char*>(RTA_DATA(field));
    if (field->rta_type == UNIX_DIAG_NAME) listening.name = {content, RTA_PAYLOAD(field)};
    if (field->rta_type == UNIX_DIAG_UID && RTA_PAYLOAD(field) == sizeof(uid_t)) {
      std::memcpy(&listening.user.emplace(), content, sizeof(uid_t));
    }
  }
  return listening;
}

}  // namespace

std::optional<uid_t> user_listening_at(std::string_view name) {
  const Fd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink || !ask(netlink.get())) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 32'768> part;  // as much as the kernel gives at once
  for (;;) {
    auto size = static_cast<int>(recv(netlink.get(), part.data(), part.size(), 0));
    if (size <= 0) return std::nullopt;
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(part.data());
         NLMSG_OK(message, static_cast<unsigned>(size)); message = NLMSG_NEXT(message, size)) {
      if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // the end, or an error
      const Listening listening = decode(message);
      if (listening.name == name) return listening.user;
    }
  }
}

}  // namespace ddprun::agent
