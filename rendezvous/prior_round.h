// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>

#include "rendezvous/failure_summary.h"
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

  /// Why it failed, which one of its members told and no master may have acted on yet.
  const std::optional<Failure>& failure() const { return failure_; }

  /// The restarts of the job when it began.
  int restarts() const { return restarts_; }

  /// How its workers ended, as far as its members have told.
  const FailureSummary& exits() const { return exits_; }

  /// The failure was counted, or has been before.
  void forget_failure() { failure_.reset(); }

 private:
  int round_ = -1;
  int members_ = 0;
  int restarts_ = 0;
  std::set<int> back_;  ///< node ranks, as one that is lost and joins again is still the same
  std::optional<Failure> failure_;  ///< the first that was told
  FailureSummary exits_;
};

}  // namespace ddprun::rendezvous
