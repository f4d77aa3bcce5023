// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "launcher/output/marked_lines.h"

namespace ddprun::launcher {

/// A queue of bytes for one file, from several writers. It keeps track of the writer whose last
/// line is unfinished (without newline), so that no other writer's text is appended to that line.
/// Pure: no I/O. A writer is identified by its address.
///
/// On a terminal, progress lines (with a \r) of all writers share the last line: text of another
/// writer erases one and comes in its place, and the progress line follows it as it was.
class LineQueue {
 public:
  /// Bytes that were taken out of a queue.
  class Block {
   public:
    std::string_view text() const { return {bytes_.get() + begin_, end_ - begin_}; }

   private:
    friend LineQueue;
    std::unique_ptr<char[]> bytes_;
    size_t capacity_ = 0;
    size_t begin_ = 0;
    size_t end_ = 0;
  };

  /// `overwrites`: the file is a terminal, where a progress line can be erased.
  explicit LineQueue(bool overwrites) : overwrites_(overwrites) {}

  /// Another ddprun reads the file, and tells marked lines of this one from its workers' output.
  void escape_marks() { escapes_marks_ = true; }

  /// Call before `writer` appends: ends another writer's unfinished line with a newline, or erases
  /// it.
  void begin(const void* writer);

  void append(std::string_view text) {
    escapes_marks_&& has_marks(text) ? append_own(without_marks(text)) : append_own(text);
  }

  /// A line of ddprun itself: its mark is left.
  void append_own(std::string_view text) {
    if (text.empty()) return;
    if (text.size() > pending_.capacity_ - pending_.end_) make_room(text.size());
    std::memcpy(pending_.bytes_.get() + pending_.end_, text.data(), text.size());
    pending_.end_ += text.size();
  }

  /// The last line, of `writer`, is unfinished: what was appended since begin().
  void leave_open(const void* writer);

  /// Whether the last line is `writer`'s and unfinished.
  bool is_open(const void* writer) const { return open_ == writer; }

  /// The same; shows `writer`'s progress line again if it was erased.
  bool reopen(const void* writer);

  /// All writers have ended, perhaps with an unfinished line: the next writer begins a new line.
  void end_line();

  /// Call before pending() is written: shows the progress line again that was erased last, if the
  /// last line is finished.
  void show_progress();

  std::string_view pending() const { return pending_.text(); }
  size_t size() const { return pending_.end_ - pending_.begin_; }
  bool empty() const { return size() == 0; }

  /// The first `count` bytes of pending() have been written.
  void consume(size_t count);

  /// Discards all pending bytes.
  void clear() { consume(size()); }

  /// Takes all pending bytes out, for another thread to write. The memory of `used`, which was
  /// taken before, serves again.
  Block take(Block used);

 private:
  /// The part of an unfinished line that the terminal shows.
  struct Line {
    std::string text;
    bool is_progress = false;  ///< it has had a \r
    bool is_at_start = false;  ///< a \r was the last byte
  };

  void make_room(size_t count);
  void erase_open_line();

  bool overwrites_;
  bool escapes_marks_ = false;
  const void* open_ = nullptr;
  Line line_;                                     // of open_; not kept for a file
  size_t began_ = 0;                              // size() at the last begin()
  std::unordered_map<const void*, Line> erased_;  // by writer
  const void* erased_last_ = nullptr;
  Block pending_;
};

}  // namespace ddprun::launcher
