// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// DECIDES from the numbers of collective calls, which all ranks of a group make in one order,
/// which ranks the others wait for. Pure.
class CallOrder {
 public:
  /// Ranks that are behind, and those that wait for them.
  struct Behind {
    std::vector<int> ranks;
    std::vector<int> waiting;
    std::string awaited;  ///< the call in which they wait: "#121 all_reduce[8]"
    std::string made{};   ///< the call of the same number that the ranks have made; may be unknown
  };

  void add(const CallPlace& place);

  /// Returns the ranks that are behind. If the ranks of a group made different calls under one
  /// number, these are the fewer ranks. Else, in the call that the group cannot end, they are:
  /// - the ranks that have not begun it, without those in a call of another group, where they may
  ///   wait themselves;
  /// - if all have begun it, the ranks that are still in it while the others wait in a later one.
  /// If `may_be` refuses the ranks of a group, another group's may be behind. nullopt: no rank is
  /// behind, or more are than wait, and then the waiting ranks may be wrong.
  std::optional<Behind> behind(const std::function<bool(const Behind&)>& may_be) const;

 private:
  using Places = std::vector<CallPlace>;

  std::optional<Behind> behind_in(const Places& group) const;
  std::vector<int> missing(const Places& group, std::uint64_t number) const;

  std::map<std::uint64_t, Places> groups_;
  std::map<int, std::set<std::uint64_t>> inside_;  ///< by rank, the groups in whose calls it is
};

}  // namespace ddprun::rendezvous
