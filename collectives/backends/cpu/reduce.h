// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/backends/cpu/call_exchange.h"
#include "collectives/backends/cpu/pairwise_exchange.h"
#include "collectives/backends/cpu/part.h"
#include "collectives/call/reduction.h"

namespace ddp::internal {

/// The elements that one rank gets combined, as a range of every rank's elements.
struct Share {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// The second half of every reduction, after the CpuCallExchange: each rank of a part gets its
/// share of the elements, combined over all ranks. Shares of at most CpuCallExchange::kLimit bytes
/// came with that exchange. Longer ones are sent piece by piece, so that sums stay in the cache.
///
/// One rank combines a share, in the same order in every run, so results are reproducible to the
/// bit.
class CpuReduce {
 public:
  CpuReduce(CpuCallExchange& exchange, CpuPairwiseExchange& pairwise)
      : exchange_(exchange), pairwise_(pairwise) {}

  /// `shares` are by index; `width` is the bytes of an element of `in`. `out` gets this rank's
  /// share, and may be that part of `in`. Throws what CpuMesh::move() throws.
  void run(const CpuPart& part, const Reduction& reduction, std::size_t width, const char* in,
           const std::vector<Share>& shares, char* out);

  /// The same, but sends the data of all shares now, however short they are.
  void run_pairwise(const CpuPart& part, const Reduction& reduction, std::size_t width,
                    const char* in, const std::vector<Share>& shares, char* out);

 private:
  void combine_exchanged(const CpuPart& part, const Reduction& reduction, const char* own,
                         char* out, std::size_t count);

  CpuCallExchange& exchange_;
  CpuPairwiseExchange& pairwise_;
  std::vector<char> sums_;
  std::vector<char> piece_;
};

}  // namespace ddp::internal
