// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call/blocks.h"

namespace ddp::internal {

/// Where the blocks of one node's ranks lie in a buffer that holds one of every rank of the group.
/// Packed they lie side by side, in the order of places. Pure.
class NodeBlocks {
 public:
  /// `ranks` are those of the node.
  NodeBlocks(const Blocks& all, const std::vector<int>& ranks);

  /// Elements of all of them, and of each, by place.
  std::size_t count() const { return count_; }
  const std::vector<std::size_t>& counts() const { return counts_; }

  /// The packed blocks of a buffer with elements of `width` bytes: where they lie in it, or a copy
  /// in `room`.
  const char* pack(const char* all, std::size_t width, std::vector<char>& room) const;

  /// Where packed blocks have to be written: in the buffer, if they lie there side by side, else in
  /// `room`, which unpack() copies from then.
  char* room_for(char* all, std::size_t width, std::vector<char>& room) const;
  void unpack(char* all, std::size_t width, const std::vector<char>& room) const;

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::size_t> counts_;
  std::size_t count_ = 0;
  bool are_side_by_side_ = true;
};

}  // namespace ddp::internal
