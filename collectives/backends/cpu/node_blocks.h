// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call/blocks.h"

namespace ddp::internal {

/// The places of one node's blocks in a buffer that holds one block of every rank of the group.
/// Packed blocks lie side by side, in the order of places. Pure.
class NodeBlocks {
 public:
  /// `ranks` are the node's.
  NodeBlocks(const Blocks& all, const std::vector<int>& ranks);

  /// The number of elements of all blocks, and of each block, by place.
  std::size_t count() const { return count_; }
  const std::vector<std::size_t>& counts() const { return counts_; }

  /// Returns the packed blocks of a buffer with elements of `width` bytes: in the buffer itself if
  /// they lie there side by side, else a copy in `room`.
  const char* pack(const char* all, std::size_t width, std::vector<char>& room) const;

  /// Returns where to write packed blocks: in the buffer, if they lie there side by side, else in
  /// `room`. Then unpack() copies them from `room`.
  char* room_for(char* all, std::size_t width, std::vector<char>& room) const;
  void unpack(char* all, std::size_t width, const std::vector<char>& room) const;

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::size_t> counts_;
  std::size_t count_ = 0;
  bool are_side_by_side_ = true;
};

}  // namespace ddp::internal
