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
#include "rendezvous/net/connection_id.h"
#include "store/socket_owner.h"

// DECIDES which connections are let in to the store. Clients of the store cannot prove who they
// are: PyTorch's protocol has no place for it. So the kernel of their host is asked whose they are.
//
// clang-format off
//  owner, as this host tells | one node without a secret       | with a secret
//  --------------------------+---------------------------------+-----------------------------------------
//  this user, or root        | let in                          | let in
//  another user              | refused                         | the nodes at its address are asked
//  nobody                    | from this host: refused, as it  | the nodes at its address are asked
//                            |  is closed; else let in         |
//  unknown                   | let in                          | from this host: let in; else the nodes
//                            |                                 |  at its address are asked
// clang-format on
//
// With several nodes and no secret every client is let in, as any of them could also join as a
// node.
//
// A node is asked on its own line, with one question at a time for all connections that have come
// meanwhile. A connection is let in when one node says that it is its user's, and refused when all
// deny it, or when no node is at that address. A node is at the address that its line comes from,
// and at those that it tells, as its workers may connect from any of its host: another node that
// tells them, too, is asked, too, and can let in more, but refuse none. A node whose line was lost
// may be back soon: until then, for some time, no client at its addresses is refused. Pure.

namespace ddprun::rendezvous {

using store::SocketEnds;
using store::SocketOwner;

/// The clients that are admitted.
enum class StoreGuests {
  everyone,   ///< several nodes without a secret
  own_user,   ///< one node without a secret
  nodes_only  ///< with a secret: what a node's user owns
};

/// The decision by the answer of this host's kernel. `is_from_here`: it comes from an address of
/// this host.
enum class Entry { admit, refuse, ask };
Entry entry(StoreGuests guests, bool is_from_here, SocketOwner::Kind owner);

/// The questions to nodes: the last column of the table above.
class StoreGate {
 public:
  using Time = BootClock::time_point;
  using Number = std::uint64_t;  ///< of a connection that waits

  /// In one question.
  static constexpr std::size_t kMostAsked = 256;
  /// The most nodes that are asked because they told the address: many hosts have the same one
  /// inside, for their containers, and no other host connects from it.
  static constexpr std::size_t kMostTold = 64;

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
  explicit StoreGate(BootClock::duration return_limit) : return_limit_(return_limit) {}

  /// A connection waits to be let in.
  Actions arrived(Number number, SocketEnds ends);

  /// It was closed.
  void left(Number number);

  /// All that wait were closed.
  void clear();

  /// A node at `address`, and at those that it `told`, can be asked on line `id`, and cannot any
  /// more.
  Actions line_opened(ConnectionId id, std::string address, const std::vector<std::string>& told);
  Actions line_closed(ConnectionId id, Time now);

  /// The answer to the question on line `id`: whether each connection is its user's. One of another
  /// length denies all.
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
    std::set<Number> to_ask;  // of those that wait; who came first is asked about first
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
  std::unordered_map<std::string, std::set<Number>> waiting_at_;  ///< by the address they are from
  std::map<ConnectionId, Line> lines_;
  LinesAt lines_from_;    ///< by the address of their own
  LinesAt lines_told_;    ///< by the others
  LostLines lost_lines_;  ///< oldest first
  LostFrom lost_from_;    ///< by the address of their own; oldest first, too
  std::unordered_map<std::string, std::size_t> lost_at_;  ///< how many of them are at an address
};

}  // namespace ddprun::rendezvous
