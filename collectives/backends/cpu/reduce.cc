// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/reduce.h"

#include <algorithm>

namespace ddp::internal {

/// Combines in the order of ranks.
void CpuReduce::combine_exchanged(const CpuPart& part, const Reduction& reduction, const char* own,
                                  char* out, std::size_t count) {
  sums_.resize(std::max(sums_.size(), count * reduction.sum_width));
  const auto data_of = [&](int index) {
    return index == part.index() ? own : exchange_.data_of(part.at(index));
  };
  reduction.load(sums_.data(), data_of(0), count);
  for (int index = 1; index < part.size(); ++index) {
    reduction.add(sums_.data(), data_of(index), count);
  }
  reduction.store(out, sums_.data(), count, part.size());
}

void CpuReduce::run(const CpuPart& part, const Reduction& reduction, std::size_t width,
                    const char* in, const std::vector<Share>& shares, char* out) {
  std::vector<Share> longer = shares;
  for (Share& share : longer) {
    if (share.count * width <= CpuCallExchange::kLimit) share.count = 0;
  }
  const auto own = static_cast<std::size_t>(part.index());
  const Share& mine = shares[own];
  if (longer[own].count == 0 && mine.count > 0) {
    combine_exchanged(part, reduction, in + mine.begin * width, out, mine.count);
  }
  run_pairwise(part, reduction, width, in, longer, out);
}

/// Uses the pairwise exchange of MPICH's reduce_scatter (Thakur, Rabenseifner, Gropp 2005, 3.3),
/// with the loop over pieces outside.
void CpuReduce::run_pairwise(const CpuPart& part, const Reduction& reduction, std::size_t width,
                             const char* in, const std::vector<Share>& shares, char* out) {
  const std::size_t in_piece = CpuPairwiseExchange::kPiece / width;  // elements
  // The number of elements of a share's piece that begins at `at`.
  const auto length = [&](const Share& share, std::size_t at) {
    return at < share.count ? std::min(in_piece, share.count - at) : 0;
  };
  std::size_t longest = 0;
  for (const Share& share : shares) longest = std::max(longest, share.count);

  const Share mine = shares[static_cast<std::size_t>(part.index())];
  const char* const own = in + mine.begin * width;
  const std::size_t piece = std::min(in_piece, mine.count);
  sums_.resize(std::max(sums_.size(), piece * reduction.sum_width));
  piece_.resize(std::max(piece_.size(), piece * width));
  for (std::size_t at = 0; at < longest; at += in_piece) {
    const std::size_t count = length(mine, at);
    reduction.load(sums_.data(), own + at * width, count);
    for (int step = 1; step < part.size(); ++step) {
      const int next = part.after(step);
      const Share& theirs = shares[static_cast<std::size_t>(next)];
      pairwise_.swap(part.at(next), {in + (theirs.begin + at) * width, length(theirs, at) * width},
                     part.at(part.before(step)), {piece_.data(), count * width});
      reduction.add(sums_.data(), piece_.data(), count);
    }
    if (count > 0) reduction.store(out + at * width, sums_.data(), count, part.size());
  }
}

}  // namespace ddp::internal
