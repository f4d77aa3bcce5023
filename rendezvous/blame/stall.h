// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "rendezvous/layout.h"
#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// DECIDES whether a round hangs: when every node whose workers run says that none of them makes
/// progress. A node that says so wrongly harms only a round in which the others have stopped, too.
/// Pure.
class Stall {
 public:
  enum class News {
    none,
    stalled,  ///< once for a hang
    over,     ///< a rank makes progress again
  };

  /// A report of `node`; it counts only from one whose workers run in that round.
  void heard(const Node& node, const NodeProgress& progress);

  /// After heard(), and when workers of a node have ended. `running` is how many nodes run workers.
  News look(const Nodes& nodes, int running);

  /// After News::stalled: lines for people, and the same as the failure of the rank to blame, or of
  /// the lowest one if none differs.
  std::string text(const Nodes& nodes) const;
  Failure failure(const Nodes& nodes) const;

  /// The node with that rank.
  static NodeId node_of(int rank, const Nodes& nodes);

 private:
  bool is_of_this_round(const Nodes& nodes) const;
  bool are_all_quiet(const Nodes& nodes, int running) const;
  double seconds() const;

  int round_ = -1;
  std::map<NodeId, NodeProgress> quiet_;  ///< of that round
  bool told_ = false;
};

}  // namespace ddprun::rendezvous
