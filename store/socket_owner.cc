// SPDX-License-Identifier: Apache-2.0
#include "store/socket_owner.h"

#include <arpa/inet.h>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace ddprun::store {
namespace {

/// Four bytes as the table shows them: one number of this machine.
std::string hex_word(const unsigned char* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08" PRIX32, word);
  return text.data();
}

std::string hex_port(std::uint16_t port) {
  std::array<char, 6> text{};
  std::snprintf(text.data(), text.size(), ":%04X", static_cast<unsigned>(port));
  return text.data();
}

/// An address of 16 bytes; empty: it is not such an address.
std::string table_address(const std::string& address) {
  std::array<unsigned char, 16> bytes{};
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) return "";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 4) text += hex_word(&bytes[i]);
  return text;
}

void add_lines(KernelSockets& found, const std::string& table, const std::string& from,
               const std::string& to) {
  const std::string both = " " + from + " " + to + " ";
  for (std::size_t at = table.find(both); at != table.npos; at = table.find(both, at + 1)) {
    KernelSocket socket;
    // Fields: state, queues, timer, retransmissions, uid, timeout, inode
    const int read =
        std::sscanf(table.c_str() + at + both.size(),
                    "%*x %*x:%*x %*x:%*x %*x %" SCNu32 " %*d %" SCNu64, &socket.uid, &socket.inode);
    if (read == 2) found.push_back(socket);
  }
}

SocketOwner judge_one(const KernelSocket& socket, std::uint32_t user) {
  using Kind = SocketOwner::Kind;
  if (socket.uid == 0) return {socket.inode != 0 ? Kind::ours : Kind::none};
  if (socket.uid == user) return {Kind::ours};
  return {Kind::foreign, socket.uid};
}

}  // namespace

SocketOwner owner_of(const KernelSockets& found, std::uint32_t user) {
  using Kind = SocketOwner::Kind;
  SocketOwner owner{Kind::none};
  for (const KernelSocket& socket : found) {
    const SocketOwner judged = judge_one(socket, user);
    if (judged.kind == Kind::foreign) return judged;
    if (judged.kind == Kind::ours) owner = judged;
  }
  return owner;
}

bool is_distinct(std::uint32_t user, std::uint32_t overflow, std::string_view uid_map) {
  if (user != overflow) return true;
  std::istringstream lines{std::string(uid_map)};
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  while (lines >> inside >> outside >> count) {
    if (user >= inside && user - inside < count) return true;
  }
  return false;
}

KernelSockets find_in_table(const std::string& table, const SocketEnds& ends) {
  const std::string from_port = hex_port(ends.from_port);
  const std::string to_port = hex_port(ends.to_port);
  std::array<unsigned char, 4> from{};
  std::array<unsigned char, 4> to{};
  KernelSockets found;
  if (inet_pton(AF_INET, ends.from.c_str(), from.data()) == 1 &&
      inet_pton(AF_INET, ends.to.c_str(), to.data()) == 1) {
    add_lines(found, table, hex_word(from.data()) + from_port, hex_word(to.data()) + to_port);
    add_lines(found, table, table_address("::ffff:" + ends.from) + from_port,
              table_address("::ffff:" + ends.to) + to_port);
  } else {
    add_lines(found, table, table_address(ends.from) + from_port, table_address(ends.to) + to_port);
  }
  return found;
}

}  // namespace ddprun::store
