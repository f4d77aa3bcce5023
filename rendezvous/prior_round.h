// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// What nodes that join tell of the last round of an earlier master, of which this one, started
/// anew at the same endpoint, knows nothing: its members may still be running its workers. Pure.
class PriorRound {
 public:
  /// `known` is the highest round that anybody knew of before this request.
  void hear(const JoinRequest& request, int known);

  /// That round; -1: nobody told of one.
  int round() const { return round_; }

  /// Its members, without the one that was lost with the master.
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
