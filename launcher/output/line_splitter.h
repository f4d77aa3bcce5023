// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/line_queue.h"

namespace ddprun::launcher {

/// Selects the lines of one stream that contain one of some texts. Pure.
class LineFilter {
 public:
  /// Puts `prefix` before each line. `texts` must outlive this.
  LineFilter(std::string prefix, const std::vector<std::string>& texts)
      : prefix_(std::move(prefix)), texts_(texts) {}

  /// Takes the next `bytes` and appends the selected lines, whole, to `out`. A line longer than
  /// kMaxLine is split, and its pieces are selected separately.
  void feed(std::string_view bytes, std::string& out);

  /// Ends the stream: its last line may lack the newline.
  void finish(std::string& out);

 private:
  void end_line(std::string_view line, std::string& out) const;

  std::string prefix_;
  const std::vector<std::string>& texts_;
  std::string kept_;  // the beginning of a line; at most kMaxLine bytes
};

/// How a worker's output is buffered.
enum class Buffering {
  line,  ///< whole lines, if several workers share a file
  none,  ///< passed on immediately and unchanged, both streams of a single worker as one
};

/// The longest line, without its newline, that is not split.
inline constexpr size_t kMaxLine = size_t{1} << 20;

/// The end of each piece of a longer line except the last.
inline constexpr std::string_view kSplitMark = " [ddprun: line split]\n";

/// Splits one worker's stream into lines with a prefix. Passes all other bytes on unchanged, also
/// NUL. Pure: no I/O.
///
/// A \r makes a progress line: from there to its newline, text is passed on immediately, with the
/// prefix after each \r ("\r[0] 40 %"). If another writer writes in between, the unfinished line is
/// ended with a newline, and the rest starts with the prefix again; on a terminal, the line is
/// shown again below the other writer's text. "\r\n" ends a line like "\n".
///
/// If nothing follows the beginning of a line, it may be a prompt. pass_on_kept() shows it, and the
/// line is then treated in the same way.
class LineSplitter {
 public:
  /// Puts `prefix` before every line; it may be empty.
  LineSplitter(std::string prefix, Buffering buffering)
      : prefix_(std::move(prefix)), buffering_(buffering) {}
  LineSplitter(const LineSplitter&) = delete;  // the queue identifies it by its address

  /// Takes the next `bytes` and appends the output that is ready to `out`, which must always be the
  /// same queue. Keeps at most kMaxLine bytes.
  void feed(std::string_view bytes, LineQueue& out);

  /// Whether the beginning of a line is kept.
  bool keeps_text() const { return !kept_.empty(); }

  /// Appends the kept beginning of a line, without a newline.
  void pass_on_kept(LineQueue& out);

  /// Ends the stream: appends the kept bytes, and a newline if lines are buffered and the last one
  /// lacks it. An unfinished line of a single worker remains: see LineQueue::end_line.
  void finish(LineQueue& out);

  const std::string& prefix() const { return prefix_; }

 private:
  enum class Position { line_start, after_return, inside };

  const void* id_in(const LineQueue& out) const;
  void feed_lines(std::string_view bytes, LineQueue& out);
  void feed_progress(std::string_view bytes, LineQueue& out);
  void keep(std::string_view text, LineQueue& out);
  void end_kept_line(std::string_view end, LineQueue& out);
  std::string_view resume_line(std::string_view bytes, const LineQueue& out);
  void pass_on(std::string_view text, LineQueue& out);
  void append_plain(std::string_view text, LineQueue& out);
  void append_prefixed(std::string_view text, LineQueue& out);

  std::string prefix_;
  Buffering buffering_;
  Position position_ = Position::line_start;  // after the last byte that was passed on
  std::string kept_;                          // a line whose bytes have not been passed on
  bool shown_early_ = false;                  // pass_on_kept has shown the beginning of this line
};

}  // namespace ddprun::launcher
