// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/agreement/comparison.h"
#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/mesh.h"
#include "collectives/backends/cpu/part.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// The data that this rank sends another with its call.
struct ExchangePayload {
  const char* data = nullptr;  ///< data that is small enough to go with the call
  std::size_t bytes = 0;       ///< of `data`; at most CpuCallExchange::kLimit
  Counts counts = {};          ///< with the other rank
};

/// One step in which every rank of a part sends every other the call that it makes, and a little
/// data. If another rank is in a call with a smaller part, a rank sees that call.
class CpuCallExchange {
 public:
  /// The most bytes of data for another rank.
  static constexpr std::size_t kLimit = 64 << 10;
  static constexpr bool takes(std::size_t bytes) { return bytes <= kLimit; }

  CpuCallExchange(const GroupContext& context, CpuMesh& mesh);

  /// Sends every other rank of the part `call` and its payload (by index; this rank's is not used),
  /// and waits for theirs. Throws ddp::Error, the agreed error, if calls or counts do not fit; and
  /// what CpuMesh::move() throws.
  void run(const CpuPart& part, const Call& call, const std::vector<ExchangePayload>& payloads);

  /// The same without payloads, in log2(n) steps of the dissemination algorithm (Hensgen, Finkel,
  /// Manber: Two Algorithms for Barrier Synchronization, 1988). It ends when all ranks have made
  /// the call. The ranks that a rank with another call would meet find the difference.
  void run_in_steps(const CpuPart& part, const Call& call);

  /// The data that another rank sent in the last run().
  const char* data_of(int rank) const;

 private:
  struct Header {
    Announced announced;
    std::uint64_t bytes = 0;  // of data, which follows
  };
  struct Peer {
    Header ours;
    Header theirs;
    std::size_t most = 0;        // bytes of data
    std::vector<char> received;  // the header, and data
  };

  CpuMesh::Sending to(int rank, const Call& call, const ExchangePayload& payload);
  CpuMesh::Receiving from(int rank, std::size_t most);
  Peer& peer(int rank);
  void check(int rank);

  const GroupContext& context_;
  CpuMesh& mesh_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null until it is first met
  std::vector<CpuMesh::Sending> sending_;
  std::vector<CpuMesh::Receiving> receiving_;
};

}  // namespace ddp::internal
