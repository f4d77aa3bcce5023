// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace ddp::internal {

/// The position of each rank's block in a buffer with a block of every rank, in elements.
class Blocks {
 public:
  /// Blocks of `counts`, by rank; if that is empty, of `count` for each of `ranks`.
  Blocks(const std::vector<std::size_t>& counts, std::size_t count, int ranks)
      : count_(count), ranks_(ranks) {
    if (counts.empty()) return;
    begins_.reserve(static_cast<std::size_t>(ranks) + 1);
    begins_.push_back(0);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      begins_.push_back(begins_.back() + counts[rank]);
    }
  }

  /// `count` elements divided as evenly as possible.
  static Blocks even(std::size_t count, int ranks) {
    Blocks blocks({}, 0, ranks);
    const auto parts = static_cast<std::size_t>(ranks);
    blocks.begins_.resize(parts + 1);
    for (std::size_t rank = 1; rank <= parts; ++rank) {
      blocks.begins_[rank] = count / parts * rank + count % parts * rank / parts;
    }
    return blocks;
  }

  std::size_t begin(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return begins_.empty() ? at * count_ : begins_[at];
  }
  std::size_t count(int rank) const { return begin(rank + 1) - begin(rank); }
  std::size_t total() const { return begin(ranks_); }

 private:
  std::size_t count_;
  int ranks_;
  std::vector<std::size_t> begins_;  // empty: all blocks have count_
};

}  // namespace ddp::internal
