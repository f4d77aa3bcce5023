// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "rendezvous/node.h"
#include "rendezvous/round/restart_budget.h"

namespace ddprun::rendezvous {

/// Counts how often nodes are lost: a node that comes and goes would make the others regroup
/// without end, for free. A node is recognized by its host's name, and by its --node_rank if it has
/// one: everything else is new after a loss. Pure.
class NodeLosses {
 public:
  using Clock = RestartBudget::Clock;
  using Time = RestartBudget::Time;

  /// A new node takes part from now on. Returns how long it has to be held back: zero unless it was
  /// lost at least twice in a row; then 1 s after the last loss, doubled with each further one, to
  /// 5 minutes.
  Clock::duration joined(NodeId node, const JoinRequest& request, Time now);

  /// Returns how many times in a row it was lost, this time included: each of them soon after it
  /// had come back. 1: the first time, or with another node of its host.
  int lost(NodeId node, Time now);

  /// It left in order.
  void left(NodeId node) { present_.erase(node); }

  /// The losses in a row of a node before it joined.
  int losses_before(NodeId node) const;

 private:
  struct Present {
    std::string name;
    Time joined;
    std::uint64_t order;  ///< among joins and losses
  };
  struct Record {
    int losses = 0;
    Time lost;                ///< the last time
    std::uint64_t order = 0;  ///< of that loss
  };

  void forget_old(Time now);

  std::uint64_t order_ = 0;
  std::map<NodeId, Present> present_;
  std::map<std::string, Record> records_;
  std::deque<std::pair<Time, std::string>> losses_;  ///< in order; their records may be forgotten
};

}  // namespace ddprun::rendezvous
