// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/reduce.h"

#include <algorithm>

namespace ddp::internal {

/// In the order of ranks.
void GlooReduce::combine_exchanged(const Reduction& reduction, const char* own, char* out,
                                   std::size_t count) {
  sums_.resize(std::max(sums_.size(), count * reduction.sum_width));
  const auto part = [&](int rank) { return rank == mesh_.rank() ? own : exchange_.data_of(rank); };
  reduction.load(sums_.data(), part(0), count);
  for (int rank = 1; rank < mesh_.size(); ++rank) {
    reduction.add(sums_.data(), part(rank), count);
  }
  reduction.store(out, sums_.data(), count, mesh_.size());
}

/// Long shares are combined by the pairwise exchange of MPICH's reduce_scatter (Thakur,
/// Rabenseifner, Gropp 2005, 3.3), with the loop over pieces outside.
void GlooReduce::run(const Reduction& reduction, std::size_t width, const char* in,
                     const std::vector<Share>& shares, char* out) {
  const int size = mesh_.size();
  const std::size_t in_piece = GlooPairwiseExchange::kPiece / width;  // elements
  const auto is_long = [&](const Share& share) {
    return share.count * width > GlooCallExchange::kLimit;
  };
  // Elements of a share's piece that begins at `at`.
  const auto length = [&](const Share& share, std::size_t at) {
    return is_long(share) && at < share.count ? std::min(in_piece, share.count - at) : 0;
  };
  std::size_t longest = 0;
  for (const Share& share : shares) longest = std::max(longest, is_long(share) ? share.count : 0);

  const Share mine = shares[static_cast<std::size_t>(mesh_.rank())];
  const char* const own = in + mine.begin * width;
  if (is_long(mine)) {
    sums_.resize(std::max(sums_.size(), in_piece * reduction.sum_width));
    piece_.resize(GlooPairwiseExchange::kPiece);
  } else if (mine.count > 0) {
    combine_exchanged(reduction, own, out, mine.count);
  }
  for (std::size_t at = 0; at < longest; at += in_piece) {
    const std::size_t count = length(mine, at);
    reduction.load(sums_.data(), own + at * width, count);
    for (int step = 1; step < size; ++step) {
      const int next = (mesh_.rank() + step) % size;
      const Share& theirs = shares[static_cast<std::size_t>(next)];
      pairwise_.send(next, in + (theirs.begin + at) * width, length(theirs, at) * width);
      pairwise_.receive((mesh_.rank() + size - step) % size, piece_.data(), count * width);
      reduction.add(sums_.data(), piece_.data(), count);
    }
    if (count > 0) reduction.store(out + at * width, sums_.data(), count, size);
  }
}

}  // namespace ddp::internal
