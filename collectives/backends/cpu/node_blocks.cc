// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/node_blocks.h"

#include <cstring>

namespace ddp::internal {
namespace {

void copy(char* to, const char* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

NodeBlocks::NodeBlocks(const Blocks& all, const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    are_side_by_side_ = are_side_by_side_ && all.begin(rank) == all.begin(ranks.front()) + count_;
    begins_.push_back(all.begin(rank));
    counts_.push_back(all.count(rank));
    count_ += all.count(rank);
  }
}

const char* NodeBlocks::pack(const char* all, std::size_t width, std::vector<char>& room) const {
  if (are_side_by_side_) return all + begins_.front() * width;
  room.resize(count_ * width);
  char* to = room.data();
  for (std::size_t place = 0; place < counts_.size(); ++place) {
    copy(to, all + begins_[place] * width, counts_[place] * width);
    to += counts_[place] * width;
  }
  return room.data();
}

char* NodeBlocks::room_for(char* all, std::size_t width, std::vector<char>& room) const {
  if (are_side_by_side_) return all + begins_.front() * width;
  room.resize(count_ * width);
  return room.data();
}

void NodeBlocks::unpack(char* all, std::size_t width, const std::vector<char>& room) const {
  if (are_side_by_side_) return;
  const char* from = room.data();
  for (std::size_t place = 0; place < counts_.size(); ++place) {
    copy(all + begins_[place] * width, from, counts_[place] * width);
    from += counts_[place] * width;
  }
}

}  // namespace ddp::internal
