// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/failure_summary.h"
#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// The last round of an earlier master, as joining nodes report it: this master was restarted at
/// the same endpoint and knows nothing of it, but its members may still run its workers. Pure.
class PriorRound {
 public:
  /// Of a later round than those before it replaces them.
  void learn(const JoinRequest& request);

  /// That round; -1: none was reported.
  int round() const { return round_; }

  /// The number of its members, without the one that was lost with the master. Of an elected
  /// master's node this is known when it is back.
  int members() const { return members_; }

  /// Those of them that have not joined since, and so may not have stopped its workers yet.
  int missing() const;

  /// Why it failed, which one of its members told and no master may have acted on yet.
  const std::optional<Failure>& failure() const { return failure_; }

  /// The restarts of the job when it began.
  int restarts() const { return restarts_; }

  /// How its workers ended, as far as its members have told.
  const FailureSummary& exits() const { return exits_; }

  /// The failure was counted, or has been before.
  void forget_failure() { failure_.reset(); }

  /// A round begins that has waited for it: what else is told of it is no news.
  void settle();
  bool is_settled() const { return settled_; }

 private:
  int round_ = -1;
  int members_ = 0;
  int restarts_ = 0;
  bool settled_ = false;
  std::set<int> back_;  ///< node ranks, as one that is lost and joins again is still the same
  std::optional<Failure> failure_;  ///< the first that was told
  FailureSummary exits_;
};

/// The last rounds of all earlier masters. Masters that did not know of each other may have given
/// one number to different rounds, and workers of both may run. Pure.
class PriorRounds {
 public:
  /// Takes the rounds that a joining node knows and this master does not.
  void learn(const JoinRequest& request);

  /// Nodes have told of some.
  bool are_known() const { return !by_master_.empty(); }

  /// Members of any of them that may not have stopped their workers yet.
  int missing() const;

  /// Some were reported, and all of their members are back.
  bool all_back() const;

  /// The one with the highest number, and of several one that failed: the job goes on from there.
  /// Without a round: there is none.
  const PriorRound& latest() const;

  /// The one with most members that are missing.
  const PriorRound& awaited() const;

  void forget_failures();
  void settle();

 private:
  template <class Key>
  const PriorRound& greatest(Key key) const;

  std::map<std::string, PriorRound> by_master_;
};

}  // namespace ddprun::rendezvous
