// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/backend.h"
#include "collectives/gloo_backend_exchange.h"
#include "collectives/gloo_backend_mesh.h"
#include "collectives/gloo_backend_turns.h"

namespace ddp::internal {

/// Messages between pairs of ranks, all of a task at once: first both sides of each pair tell each
/// other what they send and expect, then the data goes in turns, in each one piece to and from
/// everyone concerned. Throws what Gloo throws.
class GlooTransfers {
 public:
  GlooTransfers(GlooMesh& mesh, GlooExchange& exchange, GlooTurns& turns)
      : mesh_(mesh),
        exchange_(exchange),
        turns_(turns),
        calls_(static_cast<std::size_t>(mesh.size())) {}

  /// The task as one pair of ranks sees it; messages name the other one `named`.
  Call call_with(int other, int named, const Task& task) const;

  /// The rank that does not do the other half; nullopt: all is done. `names` are by rank.
  std::optional<int> run(const Task& task, const std::vector<int>& names);

 private:
  struct Pair;

  bool fits(int other, const Pair& pair) const;

  GlooMesh& mesh_;
  GlooExchange& exchange_;
  GlooTurns& turns_;
  std::vector<std::uint64_t> calls_;  // with each rank so far
};

}  // namespace ddp::internal
