// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace ddprun::launcher {

/// A queue of bytes for one file, from several writers. It keeps track of the writer whose last
/// line is unfinished (without newline), so that no other writer's text is appended to that line.
/// Pure: no I/O. A writer is identified by its address.
class LineQueue {
 public:
  /// `overwrites`: the file is a terminal, where a progress line may overwrite another.
  explicit LineQueue(bool overwrites) : overwrites_(overwrites) {}

  /// Call before `writer` appends: ends another writer's unfinished line with a newline, or, on a
  /// terminal and if the new text is progress (starts with \r), erases it.
  void begin(const void* writer, bool progress);

  void append(std::string_view text) {
    if (text.empty()) return;
    if (text.size() > capacity_ - end_) make_room(text.size());
    std::memcpy(bytes_.get() + end_, text.data(), text.size());
    end_ += text.size();
  }

  /// The last line, of `writer`, is unfinished.
  void leave_open(const void* writer) { open_ = writer; }

  /// Whether the last line is `writer`'s and unfinished.
  bool is_open(const void* writer) const { return open_ == writer; }

  std::string_view pending() const { return {bytes_.get() + begin_, size()}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }

  /// The first `count` bytes of pending() have been written.
  void consume(size_t count);

  /// Discards all pending bytes.
  void clear() { consume(size()); }

 private:
  void make_room(size_t count);

  bool overwrites_;
  const void* open_ = nullptr;
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace ddprun::launcher
