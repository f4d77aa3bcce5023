// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/recent_output.h"

#include <algorithm>
#include <vector>

namespace ddprun::launcher {
namespace {

/// The final state of the line on a terminal: the text after its last \r, not counting \r at the
/// end.
std::string_view last_state(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line.substr(line.rfind('\r') + 1);  // npos + 1 is 0
}

/// Whether it is "frame #3: c10d::Work::wait() + 0x9c3 (0x7fd3fad071d3 in /v/libtorch_cuda.so)", or
/// the title above such frames. If Python reports the exception, each line begins with its rank.
bool is_cxx_frame(std::string_view line) {
  constexpr std::string_view kRankEnd = "]: ";
  const size_t rank_end = line.starts_with("[rank") ? line.find(kRankEnd) : line.npos;
  if (rank_end != line.npos) line.remove_prefix(rank_end + kRankEnd.size());
  const bool is_title =
      line.starts_with("Exception raised from ") && line.ends_with(" (most recent call first):");
  return is_title ||
         (line.starts_with("frame #") && line.ends_with(')') && line.find(" (0x") != line.npos);
}

/// Collects lines from the end of a text.
class LastLines {
 public:
  explicit LastLines(bool with_frames) : with_frames_(with_frames) {}

  bool is_full() const { return lines_.size() >= StderrTail::kLines; }

  /// False: the line does not fit.
  bool add(std::string_view line, bool is_whole) {
    if (!with_frames_ && is_cxx_frame(line)) return leave_out(), true;
    if (left_out_ && lines_.empty() && line.empty()) return true;
    bytes_ += line.size() + 1;
    const bool fits =
        lines_.empty() ? is_whole || !left_out_ : is_whole && bytes_ <= StderrTail::kBytes;
    if (!fits) return false;
    lines_.push_back(line.substr(line.size() - std::min(line.size(), StderrTail::kBytes)));
    return true;
  }

  std::string text() const {
    std::string text;
    for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
      if (line != lines_.rbegin()) text += '\n';
      text += *line;
    }
    return text;
  }

 private:
  /// Also drops the empty lines below it.
  void leave_out() {
    left_out_ = true;
    while (!lines_.empty() && lines_.back().empty()) lines_.pop_back();
  }

  const bool with_frames_;
  bool left_out_ = false;
  std::vector<std::string_view> lines_;  // the last one first
  size_t bytes_ = 0;
};

std::string last_lines(std::string_view left, bool is_cut, bool with_frames) {
  LastLines lines(with_frames);
  for (bool more = !left.empty(); more && !lines.is_full();) {
    const size_t newline = left.rfind('\n');
    more = newline != left.npos;
    const bool is_whole = more || !is_cut;
    if (!lines.add(last_state(left.substr(newline + 1)), is_whole)) break;
    if (more) left = left.substr(0, newline);
  }
  return lines.text();
}

}  // namespace

void StderrTail::feed(std::string_view bytes) {
  if (bytes.size() > kLookedAt) {
    bytes.remove_prefix(bytes.size() - kLookedAt);
    tail_.clear();
    is_cut_ = true;
  }
  if (tail_.size() + bytes.size() > 2 * kLookedAt) {
    tail_.erase(0, tail_.size() - kLookedAt);
    is_cut_ = true;
  }
  tail_ += bytes;
}

std::string StderrTail::text() const {
  std::string_view end = tail_;  // does not depend on how the stream was cut
  const bool is_cut = is_cut_ || end.size() > kLookedAt;
  if (end.size() > kLookedAt) end.remove_prefix(end.size() - kLookedAt);
  if (end.ends_with('\n')) end.remove_suffix(1);
  std::string text = last_lines(end, is_cut, false);
  return text.empty() ? last_lines(end, is_cut, true) : text;
}

void RecentOutput::add(std::string_view bytes) {
  end_ += bytes.size();
  if (bytes.size() >= kKept) {
    kept_ = bytes.substr(bytes.size() - kKept);
    return;
  }
  if (kept_.size() + bytes.size() > 2 * kKept) {
    kept_.erase(0, kept_.size() - std::min(kept_.size(), kKept - bytes.size()));
  }
  kept_ += bytes;
}

RecentOutput::Piece RecentOutput::after(std::uint64_t from, size_t most) const {
  const std::uint64_t first = end_ - kept_.size();
  from = std::clamp(from, first, end_);
  return {from, kept_.substr(from - first, most)};
}

}  // namespace ddprun::launcher
