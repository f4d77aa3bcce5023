// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Finds out whose process holds the other end of a TCP connection. Decodes and judges the kernel's
// answer; owner_lookup asks the kernel. Pure.

namespace ddprun::store {

/// A TCP connection, as seen by the side that connected. IPv4 addresses within IPv6 are plain ones.
/// Link-local addresses have no zone, because the zone differs at each end.
struct SocketEnds {
  std::string from;  ///< the address of the side that connected
  std::uint16_t from_port = 0;
  std::string to;
  std::uint16_t to_port = 0;

  friend bool operator==(const SocketEnds&, const SocketEnds&) = default;
};

/// A socket in the kernel.
struct KernelSocket {
  std::uint32_t uid = 0;
  std::uint64_t inode = 0;  ///< 0: no process holds it any more
};

/// The sockets with the same two ends: a host may have a link-local address in several networks,
/// and the ends have no zone.
using KernelSockets = std::vector<KernelSocket>;

/// The holder of the end that connected.
struct SocketOwner {
  enum class Kind {
    ours,     ///< a process of this user, or of root
    foreign,  ///< a process of another user
    none,     ///< no process of this host: it is closed, or elsewhere
    unknown,  ///< this host does not tell
  };

  /// Whether it belongs to this user, or this host cannot tell whose it is.
  bool may_be_ours() const { return kind == Kind::ours || kind == Kind::unknown; }

  Kind kind = Kind::unknown;
  std::uint32_t uid = 0;  ///< set for foreign

  friend bool operator==(const SocketOwner&, const SocketOwner&) = default;
};

/// Judges `found` for the user `user`. Many kernels show a closed socket as root's, so it is
/// nobody's. If several sockets match, any may be the one, so all are foreign if one is.
SocketOwner owner_of(const KernelSockets& found, std::uint32_t user);

/// Whether a user id distinguishes users. In a user namespace, all users without an id there share
/// the `overflow` id. `uid_map` is the text of /proc/self/uid_map.
bool is_distinct(std::uint32_t user, std::uint32_t overflow, std::string_view uid_map);

/// The connected end of `ends` in the text of /proc/net/tcp and /proc/net/tcp6.
KernelSockets find_in_table(const std::string& table, const SocketEnds& ends);

}  // namespace ddprun::store
