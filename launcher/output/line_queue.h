// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace ddprun::launcher {

/// Bytes on their way to one file, made of the lines of several writers. It remembers whose line
/// is still open (begun, without its newline), so that no other writer's text is glued to it.
/// Pure: no I/O. A writer is known by its address.
class LineQueue {
 public:
  /// `overwrites`: the file is a terminal, where a progress line may take the place of another.
  explicit LineQueue(bool overwrites) : overwrites_(overwrites) {}

  /// `writer` is about to append; an open line of somebody else is closed with a newline. Between
  /// two progress lines (`progress`: the text starts with \r) on a terminal, it is erased instead.
  void begin(const void* writer, bool progress);

  void append(std::string_view text) {
    if (text.empty()) return;
    if (text.size() > capacity_ - end_) make_room(text.size());
    std::memcpy(bytes_.get() + end_, text.data(), text.size());
    end_ += text.size();
  }

  /// The text `writer` appended last does not end its line.
  void leave_open(const void* writer) { open_ = writer; }

  /// Whether the last line is `writer`'s and lacks its newline.
  bool is_open(const void* writer) const { return open_ == writer; }

  std::string_view pending() const { return {bytes_.get() + begin_, size()}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }

  /// The first `count` bytes of pending() have been written.
  void consume(size_t count);

  /// Forgets all pending bytes.
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
