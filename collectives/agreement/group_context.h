// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/options.h"
#include "ddp/store.h"

namespace ddp::internal {

/// A rank's place in a group, and where the group meets.
struct GroupContext {
  int rank = 0;
  int size = 1;
  std::shared_ptr<Store> store;  ///< none when the group has one rank
  std::string address;           ///< of this host, numeric; the other ranks reach this one there
  std::string prefix;            ///< of this group's keys, ends with '/'
  std::chrono::milliseconds timeout;
  bool rank_0_serves = false;   ///< the store ends with rank 0 of the whole group
  std::vector<int> whole = {};  ///< by rank, its rank in the group that this is a part of, if any
  std::string backend = {};     ///< its name, the same on all ranks
  std::optional<int> device = {};  ///< the GPU, if Options::device names it
  NcclOptions nccl = {};

  /// The number by which messages name a rank: its number in the whole group.
  int named(int of) const { return whole.empty() ? of : whole[static_cast<std::size_t>(of)]; }
};

/// The context of some ranks of the group, this one among them. They get new numbers, and keep
/// their names in messages.
inline GroupContext context_of_part(const GroupContext& context, const std::vector<int>& ranks) {
  GroupContext part = context;
  part.whole.clear();
  for (const int rank : ranks) {
    if (rank == context.rank) part.rank = static_cast<int>(part.whole.size());
    part.whole.push_back(context.named(rank));
  }
  part.size = static_cast<int>(ranks.size());
  return part;
}

}  // namespace ddp::internal
