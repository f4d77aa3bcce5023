// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// The last round of an earlier master, as joining nodes report it: this master was restarted at
/// the same endpoint and knows nothing of it, but its members may still run its workers. Pure.
class PriorRound {
 public:
  /// `known` is the highest round known before this request.
  void learn(const JoinRequest& request, int known);

  /// That round; -1: none was reported.
  int round() const { return round_; }

  /// The number of its members, without the one that was lost with the master.
  int members() const { return members_; }

  /// Those of them that have not joined since, and so may not have stopped its workers yet.
  int missing() const;

  bool all_back() const { return round_ >= 0 && missing() == 0; }

 private:
  int round_ = -1;
  int members_ = 0;
  std::set<int> back_;  ///< node ranks, as one that is lost and joins again is still the same
};

}  // namespace ddprun::rendezvous
