// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/backends/gloo/exchange.h"
#include "collectives/backends/gloo/mesh.h"
#include "collectives/backends/gloo/pairwise_exchange.h"
#include "collectives/call/reduction.h"

namespace ddp::internal {

/// What one rank is to get of a reduction: a range of the elements that every rank has.
struct Share {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// The second half of every reduction, after the exchange of calls: each rank gets its share, of
/// all ranks combined. A share of at most GlooExchange::kLimit bytes has come with the exchange;
/// longer ones follow piece by piece, so that sums stay in the cache.
///
/// One rank combines a share, and in the same order in every run, so the bits are always the same.
class GlooReduce {
 public:
  GlooReduce(GlooMesh& mesh, GlooExchange& exchange, GlooPairwiseExchange& turns)
      : mesh_(mesh), exchange_(exchange), turns_(turns) {}

  /// `shares` are by rank, `width` is bytes of an element of `in`. `out`, for our share, may be
  /// that part of `in`. Throws what Gloo throws.
  void run(const Reduction& reduction, std::size_t width, const char* in,
           const std::vector<Share>& shares, char* out);

 private:
  void combine_exchanged(const Reduction& reduction, const char* own, char* out, std::size_t count);

  GlooMesh& mesh_;
  GlooExchange& exchange_;
  GlooPairwiseExchange& turns_;
  std::vector<char> sums_;
  std::vector<char> piece_;
};

}  // namespace ddp::internal
