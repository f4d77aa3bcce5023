// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/boot_clock.h"
#include "rendezvous/node.h"
#include "store/socket_owner.h"

// DECIDES which connections are let in to the store. Clients of the store cannot prove who they
// are: PyTorch's protocol has no place for it. So the kernel of their host says who owns them.
//
// clang-format off
//  owner, as this host says  | one node without a secret       | with a secret
//  --------------------------+---------------------------------+-----------------------------------------
//  this user, or root        | let in                          | let in
//  another user              | refused                         | the nodes at its address are asked
//  none                      | from this host: refused, as it  | the nodes at its address are asked
//                            |  is closed; else let in         |
//  unknown                   | let in                          | from this host: let in; else the nodes
//                            |                                 |  at its address are asked
// clang-format on
//
// If there are several nodes and no secret, every client is let in: each could also join as a node.
//
// The master asks a node on its own line, one question at a time, about all connections since the
// last. It lets a connection in if one node confirms that its user has it. It refuses it if all
// nodes deny it, or if no node is at that address. A node is at the address that its line comes
// from, and at those that it reports, as its workers may connect from any address of its host. If
// another node reports an address, too, it is asked, too: it can let in more, but refuse none. If a
// node's line is lost, no client at its addresses is refused for some time: it may be back soon.
// Pure.

namespace ddprun::rendezvous {

using store::SocketEnds;
using store::SocketOwner;

/// The clients that are admitted.
enum class StoreAccess {
  everyone,   ///< several nodes without a secret
  own_user,   ///< one node without a secret
  nodes_only  ///< with a secret: connections that a node's user owns
};

/// The decision after the answer of this host's kernel. `is_from_here`: the client's address is one
/// of this host.
enum class Entry { admit, refuse, ask };
Entry entry(StoreAccess access, bool is_from_here, SocketOwner::Kind owner);

/// Asks the nodes: the last column of the table above.
class StoreAdmission {
 public:
  using Time = BootClock::time_point;
  using Number = std::uint64_t;  ///< of a waiting connection

  /// The most connections in one question.
  static constexpr std::size_t kMostAsked = 256;
  /// The most nodes that are asked because they reported the address: many hosts use the same
  /// address inside, for their containers, and no other host connects from it.
  static constexpr std::size_t kMostByOther = 64;

  struct Admit {
    Number connection;
  };
  struct Refuse {
    Number connection;
    std::string reason;  ///< follows "refused 10.0.0.9 port 4711: "
  };
  struct Ask {
    ConnectionId line;
    std::vector<SocketEnds> connections;
  };
  using Action = std::variant<Admit, Refuse, Ask>;
  using Actions = std::vector<Action>;

  /// A node whose line is lost may be back within `return_limit`.
  explicit StoreAdmission(BootClock::duration return_limit) : return_limit_(return_limit) {}

  /// A connection waits to be let in.
  Actions arrived(Number number, SocketEnds ends);

  /// The connection was closed.
  void left(Number number);

  /// All waiting connections were closed.
  void clear();

  /// A node at `address`, which has reported the addresses `others`, too, can be asked on line `id`
  /// from now on, or no longer.
  Actions line_opened(ConnectionId id, std::string address, const std::vector<std::string>& others);
  Actions line_closed(ConnectionId id, Time now);

  /// The answer to the question on line `id`: whether each connection is its user's. An answer of
  /// another length denies all.
  Actions answered(ConnectionId id, const std::vector<bool>& ours);

  /// Call it at `deadline`; harmless at any other time.
  Actions tick(Time now);

  /// When `tick` has something to do; nullopt: not before another event.
  std::optional<Time> deadline() const;

 private:
  struct Waiting {
    SocketEnds ends;
    std::size_t questions = 0;  ///< to nodes, without an answer
  };
  struct Line {
    std::vector<std::string> addresses;  // the first one is its own
    std::vector<Number> asked;
    std::set<Number> to_ask;  // waiting connections; the first to come is the first asked about
  };
  struct LostLine {
    std::vector<std::string> addresses;
    Time since;
  };
  using LostLines = std::list<LostLine>;
  using LostFrom = std::multimap<std::string, LostLines::iterator>;
  using LinesAt = std::set<std::pair<std::string, ConnectionId>>;  // by address

  std::vector<ConnectionId> lines_to_ask(const std::string& address) const;
  static void add_lines_at(const std::string& address, const LinesAt& lines, std::size_t most,
                           std::vector<ConnectionId>& to);
  LostLines::iterator forget(LostLines::iterator lost);
  void forget_lost(const std::vector<std::string>& addresses);
  void take_out(Number number);
  void add_question(Line& line, Number number);
  void ask(ConnectionId id, Line& line, Actions& actions);
  void refuse_if_denied(Number number, Actions& actions);

  BootClock::duration return_limit_;
  std::unordered_map<Number, Waiting> waiting_;
  std::unordered_map<std::string, std::set<Number>> waiting_at_;  ///< by the address of the client
  std::map<ConnectionId, Line> lines_;
  LinesAt lines_from_;      ///< by the line's own address
  LinesAt lines_by_other_;  ///< by the other addresses
  LostLines lost_lines_;    ///< oldest first
  LostFrom lost_from_;      ///< by the line's own address, oldest first
  std::unordered_map<std::string, std::size_t>
      lost_at_;  ///< the number of lost lines at an address
};

}  // namespace ddprun::rendezvous
