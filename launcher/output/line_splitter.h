// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/output/line_queue.h"

namespace ddprun::launcher {

/// When a worker's bytes are passed on.
enum class Relay {
  lines,  ///< whole lines; several workers share the file
  bytes,  ///< at once, so that a prompt without newline is seen; for a worker that is alone
};

/// The longest line, without its newline, that is kept whole.
inline constexpr size_t kMaxLine = size_t{1} << 20;

/// Ends each piece of a longer line but the last.
inline constexpr std::string_view kSplitMark = " [ddprun: line split]\n";

/// One worker's stream of bytes, cut into prefixed lines. Every byte but these is passed on
/// unchanged, NUL too. Pure: no I/O.
///
/// A \r makes a progress line: from there on its text is passed on as it comes, with the prefix
/// after each \r ("\r[0] 40 %"), until its newline. When somebody else writes meanwhile, the open
/// line is closed with a newline (on a terminal another progress line overwrites it) and what
/// follows starts with the prefix again. "\r\n" ends a line like "\n".
class LineSplitter {
 public:
  /// `prefix` goes in front of every line; may be empty.
  LineSplitter(std::string prefix, Relay relay) : prefix_(std::move(prefix)), relay_(relay) {}
  LineSplitter(const LineSplitter&) = delete;  // the queue knows it by its address

  /// Takes the next `bytes`; what may go out is appended to `out`, which is always the same one.
  /// Keeps at most kMaxLine bytes back.
  void feed(std::string_view bytes, LineQueue& out);

  /// The stream is over: passes on what was kept, and ends a line that lacks its newline.
  void finish(LineQueue& out);

  const std::string& prefix() const { return prefix_; }

 private:
  enum class Position { line_start, after_return, inside };

  void feed_lines(std::string_view bytes, LineQueue& out);
  void feed_progress(std::string_view bytes, LineQueue& out);
  void keep(std::string_view text, LineQueue& out);
  void end_kept_line(std::string_view end, LineQueue& out);
  void pass_on(std::string_view text, LineQueue& out);
  void append_plain(std::string_view text, LineQueue& out);
  void append_prefixed(std::string_view text, LineQueue& out);

  std::string prefix_;
  Relay relay_;
  Position position_ = Position::line_start;  // after what has been passed on
  std::string kept_;                          // of a line nothing of which has been passed on
};

}  // namespace ddprun::launcher
