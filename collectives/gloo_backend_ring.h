// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/gloo_backend_mesh.h"
#include "collectives/reduction.h"
#include "ddp/types.h"

namespace ddp::internal {

/// Moves large data around the ring of ranks, each of which sends to the next and receives from the
/// one before, in pieces. Every rank has made the same call, and knows that. Throws what Gloo
/// throws.
class GlooRing {
 public:
  explicit GlooRing(GlooMesh& mesh) : mesh_(mesh) {}

  /// Every piece goes from the root along the ring.
  void broadcast(Buffer buffer, int root);

  /// Every piece goes around once to collect everyone's part, in the order of ranks, and once more
  /// as it is then: so all ranks end with the same bits, and in every run.
  void all_reduce(Buffer buffer, Reduction reduce);

 private:
  int next() const { return (mesh_.rank() + 1) % mesh_.size(); }
  int previous() const { return (mesh_.rank() + mesh_.size() - 1) % mesh_.size(); }

  GlooMesh& mesh_;
};

}  // namespace ddp::internal
