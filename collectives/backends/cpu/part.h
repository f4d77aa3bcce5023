// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace ddp::internal {

/// Some ranks of a mesh, `own` among them, in an order that is the same on all of them. A rank's
/// index is its place in that order. Pure.
class CpuPart {
 public:
  CpuPart(std::vector<int> ranks, int own) : ranks_(std::move(ranks)) {
    while (at(index_) != own) ++index_;
  }

  /// All ranks of a mesh of `size`: a rank's index is its number.
  static CpuPart whole(int size, int own) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return {std::move(ranks), own};
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  /// This rank's index.
  int index() const { return index_; }
  /// The rank with this index.
  int at(int index) const { return ranks_[static_cast<std::size_t>(index)]; }

  /// The index `steps` after this rank's, or before it, around the end; below size().
  int after(int steps) const { return (index_ + steps) % size(); }
  int before(int steps) const { return (index_ + size() - steps) % size(); }

 private:
  std::vector<int> ranks_;
  int index_ = 0;
};

}  // namespace ddp::internal
