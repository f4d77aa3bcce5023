// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_queue.h"

#include <algorithm>

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
  begin_ += count;
  if (begin_ < end_) return;
  begin_ = end_ = 0;
  if (capacity_ <= kKeptForLines) return;
  bytes_.reset();
  capacity_ = 0;
}

void LineQueue::make_room(size_t count) {
  const size_t held = size();
  if (held + count <= capacity_ / 2) {
    std::memmove(bytes_.get(), bytes_.get() + begin_, held);
  } else {
    const size_t capacity = std::max({kFirstCapacity, capacity_ * 2, held + count});
    auto bigger = std::make_unique_for_overwrite<char[]>(capacity);
    if (held > 0) std::memcpy(bigger.get(), bytes_.get() + begin_, held);
    bytes_ = std::move(bigger);
    capacity_ = capacity;
  }
  begin_ = 0;
  end_ = held;
}

}  // namespace ddprun::launcher
