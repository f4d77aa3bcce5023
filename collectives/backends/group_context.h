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

/// Where a group meets.
struct GroupContext {
  int rank = 0;
  int size = 1;
  std::shared_ptr<Store> store;  ///< none when the group has one rank
  std::string address;           ///< of this host, numeric: where the other ranks reach this one
  std::string prefix;            ///< of this group's keys, ends with '/'
  std::chrono::milliseconds timeout;
  bool rank_0_serves = false;      ///< the store ends with rank 0 of the whole
  std::vector<int> whole = {};     ///< by rank, its rank in the group this one is a part of, if any
  std::string backend = {};        ///< its name, which all ranks must have alike
  std::optional<int> device = {};  ///< the GPU, if Options::device names it
  NcclOptions nccl = {};

  /// How messages name a rank: by its number in the whole.
  int named(int of) const { return whole.empty() ? of : whole[static_cast<std::size_t>(of)]; }
};

/// The context of some of its ranks, this one among them. They get new numbers, and are
/// named as before.
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
