// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/blame/call_order.h"
#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// DECIDES which ranks are to blame for a failure that looks like a consequence, from where the
/// other workers of all nodes were before they were stopped. Pure.
///
/// A wrong name is worse than none: no rank is named where a worker failed for a reason of its own,
/// which the report shows; where others compute, as all may wait for one of them; or where the
/// ranks that differ are more than those that wait. Where each rank shows that it waits in a
/// collective, one is named that waits in another than all others do. Numbers of calls, where there
/// are some, decide before all that, but for a rank that is stopped: a rank that computes may be
/// behind, too.
class Suspect {
 public:
  /// Once for each node, whose workers have these ranks; what it says of others is left out.
  void add(const WorkerExits& of_node, const std::string& host, int first_rank, int local_size);

  /// The ranks that the first failure's own words name; they count where nothing else decides.
  void add_told(std::string sentence) { told_ = std::move(sentence); }

  /// "rank 1 (gpu-02) is the likely cause: asleep (clock_nanosleep) for 612 s, while ranks 0, 2-7
  /// waited". Empty: cannot tell, or no failure looks like a consequence.
  std::string text() const;

  /// The same for a round in which no rank makes progress, though none has failed: whom the others
  /// wait for, or that no rank differs, and then a line for each group of ranks.
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
  const Group* waits_apart() const;
  std::vector<int> waiting() const;
  const Group* named_group() const;
  std::optional<CallOrder::Behind> behind() const;
  std::string sentence() const;
  std::string sentence(const Group& suspect) const;
  std::string sentence(const CallOrder::Behind& behind) const;
  std::string collective_text(const Group& suspect) const;

  std::vector<Group> groups_;
  int ranks_ = 0;  ///< of the nodes that were added
  CallOrder calls_;
  std::vector<int> failed_waiting_;  ///< ranks that failed as a consequence
  bool has_own_cause_ = false;       ///< a rank failed for a reason of its own
  std::string told_;
};

}  // namespace ddprun::rendezvous
