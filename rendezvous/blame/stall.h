// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "rendezvous/layout.h"
#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// DECIDES whether a round hangs: every node whose workers run has reported that none of them makes
/// progress, or that some only compute while all others show that they wait for them. A wrong
/// report harms only a round in which all other nodes have stopped, too. Pure.
class Stall {
 public:
  enum class News {
    none,
    stalled,  ///< returned once for a hang
    over,     ///< a rank makes progress again
  };

  /// Takes a report of `node`; it counts only if the node's workers run in that round.
  void heard(const Node& node, const NodeProgress& progress);

  /// Call it after heard(), and when a node's workers have ended. `running` nodes run workers.
  News look(const Nodes& nodes, int running);

  /// After News::stalled: a report of several lines, and the same as the failure of the rank to
  /// blame, or of the lowest rank if none differs.
  std::string text(const Nodes& nodes) const;
  Failure failure(const Nodes& nodes) const;

  /// The node with that rank.
  static NodeId node_of(int rank, const Nodes& nodes);

 private:
  bool is_of_this_round(const Nodes& nodes) const;
  bool any_computes() const;
  bool are_all_quiet(const Nodes& nodes, int running) const;
  double seconds() const;

  int round_ = -1;
  std::map<NodeId, NodeProgress> quiet_;  ///< of that round
  bool reported_ = false;
};

}  // namespace ddprun::rendezvous
