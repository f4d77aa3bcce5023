// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "collectives/backends/cpu/mesh.h"
#include "collectives/backends/cpu/part.h"
#include "collectives/call/route.h"

namespace ddp::internal {

/// Moves large data between ranks, after all ranks of the group have agreed on the call. Throws
/// what CpuMesh::move() throws.
class CpuPairwiseExchange {
 public:
  /// The longest piece, in bytes, so that what was sent is still in a cache when it is read. Just
  /// under two segments of the loopback device (65,483 bytes each): a short third one would cost
  /// the reader one more wake-up.
  static constexpr std::size_t kPiece = 126 << 10;

  explicit CpuPairwiseExchange(CpuMesh& mesh) : mesh_(mesh) {}

  using Outgoing = internal::Outgoing;
  using Incoming = internal::Incoming;

  /// Every rank of the part sends every other its data, both by index: first to the next and from
  /// the previous rank, then to the second next, and so on. Each rank sends to one and receives
  /// from one at a time. This is MPICH's pairwise exchange (Thakur, Rabenseifner, Gropp:
  /// Optimization of Collective Communication Operations in MPICH, 2005, 3.2 and 3.3). It moves as
  /// little data as a ring does.
  void exchange(const CpuPart& part, const std::function<Outgoing(int index)>& to,
                const std::function<Incoming(int index)>& from);

  /// Sends from the rank with the index `root` to the next one and so on; each rank forwards every
  /// piece as it comes. This pipelined chain takes as long as sending long data once.
  void broadcast(const CpuPart& part, char* data, std::size_t bytes, int root);

  /// Sends to one rank while it receives from another; long data in one go, or in pieces.
  void swap(int to, const Outgoing& out, int from, const Incoming& in);
  void swap_in_pieces(int to, const Outgoing& out, int from, const Incoming& in);

 private:
  CpuMesh& mesh_;
};

}  // namespace ddp::internal
