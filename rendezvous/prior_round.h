// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// How the other workers of the round that ended a job ended, collected from all its nodes, so that
/// each of them reports the same. Pure.
class FailureSummary {
 public:
  /// Call it once for each node.
  void add(const WorkerExits& of_node);

  /// "ranks 5, 6 failed too (exit 1)\nranks 0-3 were stopped by ddprun (SIGTERM, gone after 12 ms;
  /// rank 3 needed SIGKILL)": whole lines, no newline after the last one, and about a KiB at most
  /// however many ranks there are. `root_cause`, the rank that failed first, is left out. Empty:
  /// there were no others.
  std::string text(int root_cause) const;

 private:
  struct Stop {
    std::vector<int> ranks;
    std::vector<int> killed;
    double seconds = 0;  ///< the longest
  };

  std::map<std::string, std::vector<int>> failed_;  ///< ranks by how they ended
  std::map<std::string, Stop> stops_;               ///< by the first signal
};

/// The last round of an earlier master, as joining nodes report it: this master was restarted at
/// the same endpoint and does not know it, but its members may still run its workers. Pure.
class PriorRound {
 public:
  /// Takes a node's report; a later round replaces an earlier one.
  void learn(const JoinRequest& request);

  /// The number of the round; -1: none was reported.
  int round() const { return round_; }

  /// The number of its members, without a node that was lost with the master. The node of an
  /// elected master counts when it is back.
  int members() const { return members_; }

  /// The number of members that have not joined since; they may still run the round's workers.
  int missing() const;

  /// Why the round failed, if a member reported that; perhaps no master has acted on it.
  const std::optional<Failure>& failure() const { return failure_; }

  /// The restarts of the job when the round began.
  int restarts() const { return restarts_; }

  /// How the workers of the members that are back ended.
  const FailureSummary& exits() const { return exits_; }

  /// Call it when the failure is counted, or is old news.
  void forget_failure() { failure_.reset(); }

  /// Call it when the next round begins; later reports of this round change nothing.
  void settle();
  bool is_settled() const { return settled_; }

 private:
  int round_ = -1;
  int members_ = 0;
  int restarts_ = 0;
  bool settled_ = false;
  std::set<int> back_;              ///< node ranks: a node that is lost and joins again counts once
  std::optional<Failure> failure_;  ///< the first that was reported
  FailureSummary exits_;
};

/// The last rounds of all earlier masters. Masters that did not know of each other may have given
/// one number to different rounds, and workers of both may run. Pure.
class PriorRounds {
 public:
  /// Takes the rounds that a joining node knows and this master does not.
  void learn(const JoinRequest& request);

  /// Nodes have reported some.
  bool are_known() const { return !by_master_.empty(); }

  /// The number of members of all of them that may still run their workers.
  int missing() const;

  /// Nodes have reported some, and all of their members are back.
  bool all_back() const;

  /// The round with the highest number, and of several such a failed one: the job continues from
  /// there. Its number is -1 if there is none.
  const PriorRound& latest() const;

  /// The round with most missing members.
  const PriorRound& awaited() const;

  void forget_failures();
  void settle();

 private:
  template <class Key>
  const PriorRound& greatest(Key key) const;

  std::map<std::string, PriorRound> by_master_;
};

}  // namespace ddprun::rendezvous
