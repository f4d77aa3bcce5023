// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_queue.h"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr size_t kFirstCapacity = 4096;
constexpr size_t kKeptForLines = 512 * 1024;  // a larger buffer is freed when empty
constexpr std::string_view kEraseLine = "\r\033[K";

}  // namespace

void LineQueue::begin(const void* writer, bool progress) {
  if (open_ != nullptr && open_ != writer) append(progress && overwrites_ ? kEraseLine : "\n");
  open_ = nullptr;
}

void LineQueue::consume(size_t count) {
  pending_.begin_ += count;
  if (!empty()) return;
  pending_.begin_ = pending_.end_ = 0;
  if (pending_.capacity_ > kKeptForLines) pending_ = {};
}

LineQueue::Block LineQueue::take(Block used) {
  std::swap(pending_, used);
  clear();
  return used;
}

void LineQueue::make_room(size_t count) {
  const size_t held = size();
  if (held + count <= pending_.capacity_ / 2) {
    std::memmove(pending_.bytes_.get(), pending_.bytes_.get() + pending_.begin_, held);
  } else {
    const size_t capacity = std::max({kFirstCapacity, pending_.capacity_ * 2, held + count});
    auto bigger = std::make_unique_for_overwrite<char[]>(capacity);
    if (held > 0) std::memcpy(bigger.get(), pending_.bytes_.get() + pending_.begin_, held);
    pending_.bytes_ = std::move(bigger);
    pending_.capacity_ = capacity;
  }
  pending_.begin_ = 0;
  pending_.end_ = held;
}

}  // namespace ddprun::launcher
