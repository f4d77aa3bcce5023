// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/blame/call_order.h"
#include "rendezvous/blame/releases.h"
#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// DECIDES which ranks are to blame for a failure that looks like a consequence, from where the
/// other workers of all nodes were before they were stopped. Pure.
///
/// A wrong name is worse than none. No rank is named if a worker failed for a reason of its own,
/// which the report shows; if others compute without a stack, as all may wait for one of them; or
/// if more ranks differ than wait. If a rank shows that it waits in a collective, a rank is named
/// that waits elsewhere, or else one that computes elsewhere. If every rank waits in a collective,
/// and one in another collective than all the others, that rank is named. These decide first, in
/// this order: a stopped rank; the numbers of calls, if known, as a rank that computes may be
/// behind, too; ranks that ended with exit code 0 while others lost them, or waited in a
/// collective.
class Suspect {
 public:
  /// Call it once for each node, whose workers have these ranks; it ignores reports of other ranks.
  void add(const WorkerExits& of_node, const std::string& host, int first_rank, int local_size);

  /// Takes a sentence about ranks that the first failure names, used if nothing else decides.
  void add_named(std::string sentence) { named_ = std::move(sentence); }

  /// "rank 1 (gpu-02) is the likely cause: asleep (clock_nanosleep) for 612 s, while ranks 0, 2-7
  /// waited". If the ranks have several releases of a library, it names these, too. Empty: cannot
  /// tell, or no failure looks like a consequence.
  std::string text() const;

  /// The same for a hang, where no rank has failed: the rank that the others wait for, or that no
  /// rank differs; then a line for each group of ranks.
  std::string stall_text() const;

  /// The lowest rank that the sentence names; nullopt: it names none.
  std::optional<int> named() const;

 private:
  struct Group {
    WorkerPlace place;
    std::vector<std::string> hosts;
  };

  void add_place(const WorkerPlace& place, const std::string& host);
  bool has(WorkerPlace::Kind kind) const;
  bool may_be_suspect(WorkerPlace::Kind kind) const;
  const Group* stands_apart() const;
  bool has_ended_early() const;
  const Group* only_one_of(WorkerPlace::Kind kind) const;
  bool is_any_in_message(const std::vector<int>& ranks) const;
  const Group* waits_apart() const;
  std::vector<int> waiting() const;
  const Group* named_group() const;
  std::optional<CallOrder::Behind> behind() const;
  std::string sentence() const;
  std::string sentence(const Group& suspect) const;
  std::string sentence(const CallOrder::Behind& behind) const;
  std::string collective_text(const Group& suspect) const;

  struct NodeRanks {
    std::string host;
    int first_rank;
    int local_size;
  };

  std::vector<std::string> hosts_of(const std::vector<int>& ranks) const;

  std::vector<Group> groups_;
  std::vector<NodeRanks> nodes_;
  int ranks_ = 0;  ///< of the nodes that were added
  CallOrder calls_;
  Releases releases_;
  std::vector<int> failed_waiting_;  ///< ranks that failed as a consequence
  bool has_lost_peer_ = false;       ///< one of them says that a peer ended
  bool has_own_cause_ = false;       ///< a rank failed for a reason of its own
  std::string named_;
};

}  // namespace ddprun::rendezvous
