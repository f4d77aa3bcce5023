// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

// A stream that contains lines of a ddprun, marked by log::kMark, between bytes of its workers. The
// writer escapes the workers' bytes, so these contain no mark. Pure.

namespace ddprun::launcher {

/// Whether without_marks() changes `bytes`.
bool has_marks(std::string_view bytes);

/// Escapes a worker's bytes for such a stream; MarkedLines restores them.
std::string without_marks(std::string_view bytes);

/// Separates the two parts of such a stream.
class MarkedLines {
 public:
  /// Takes the next `bytes` of the stream. Calls `taken` for each marked line that has ended,
  /// without mark and newline, cut after a MiB. Returns the workers' bytes.
  std::string take(std::string_view bytes, const std::function<void(std::string_view)>& taken);

 private:
  enum class State { text, escape, marked };

  State state_ = State::text;
  std::string line_;  // the beginning of a marked line
};

/// A queue of bytes for one file, from several writers. It remembers the writer of an unfinished
/// last line (without newline), so that no other writer's text is appended to that line. Pure: no
/// I/O. A writer is identified by its address.
///
/// On a terminal, progress lines (with a \r) of all writers share the last line. Another writer's
/// text erases a progress line and takes its place; the progress line is then shown again below it.
class LineQueue {
 public:
  /// Bytes taken out of a queue.
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

  /// Call if another ddprun reads the file: it takes only this one's own lines for marked lines.
  void escape_marks() { escapes_marks_ = true; }

  /// Call before `writer` appends: ends another writer's unfinished line with a newline, or erases
  /// it.
  void begin(const void* writer);

  void append(std::string_view text) {
    escapes_marks_&& has_marks(text) ? append_own(without_marks(text)) : append_own(text);
  }

  /// Appends a line of ddprun itself, and leaves its mark.
  void append_own(std::string_view text) {
    if (text.empty()) return;
    if (text.size() > pending_.capacity_ - pending_.end_) make_room(text.size());
    std::memcpy(pending_.bytes_.get() + pending_.end_, text.data(), text.size());
    pending_.end_ += text.size();
  }

  /// Call if the bytes that `writer` appended since begin() leave the last line unfinished.
  void leave_open(const void* writer);

  /// Whether the last line is `writer`'s and unfinished.
  bool is_open(const void* writer) const { return open_ == writer; }

  /// The same, but first shows `writer`'s progress line again if it was erased.
  bool reopen(const void* writer);

  /// Call when all writers have ended: the next one begins a new line in any case.
  void end_line();

  /// Call before pending() is written: if the last line is finished, shows the progress line again
  /// that was erased last.
  void show_progress();

  std::string_view pending() const { return pending_.text(); }
  size_t size() const { return pending_.end_ - pending_.begin_; }
  bool empty() const { return size() == 0; }

  /// The first `count` bytes of pending() have been written.
  void consume(size_t count);

  /// Discards all pending bytes.
  void clear() { consume(size()); }

  /// Takes all pending bytes out, for another thread to write. Reuses the memory of `used`, an
  /// earlier block.
  Block take(Block used);

 private:
  /// The part of an unfinished line that the terminal shows.
  struct Line {
    std::string text;
    bool is_progress = false;  ///< it contains a \r
    bool is_at_start = false;  ///< its last byte was a \r
  };

  void make_room(size_t count);
  void erase_open_line();

  bool overwrites_;
  bool escapes_marks_ = false;
  const void* open_ = nullptr;
  Line line_;                                     // of open_; empty unless overwrites_
  size_t began_ = 0;                              // size() at the last begin()
  std::unordered_map<const void*, Line> erased_;  // by writer
  const void* erased_last_ = nullptr;
  Block pending_;
};

}  // namespace ddprun::launcher
