// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_splitter.h"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {

void LineFilter::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const size_t room = kMaxLine - kept_.size();
    const bool whole = newline != bytes.npos && newline <= room;
    const std::string_view part = bytes.substr(0, std::min(newline, room));
    if (whole && kept_.empty()) {
      end_line(part, out);
    } else {
      kept_ += part;
      if (whole || kept_.size() == kMaxLine) finish(out);
    }
    bytes.remove_prefix(part.size() + (whole ? 1 : 0));
  }
}

void LineFilter::finish(std::string& out) {
  if (!kept_.empty()) end_line(std::exchange(kept_, {}), out);
}

void LineFilter::end_line(std::string_view line, std::string& out) const {
  const bool selected = std::any_of(texts_.begin(), texts_.end(), [line](const std::string& text) {
    return line.find(text) != line.npos;
  });
  if (selected) out.append(prefix_).append(line).append("\n");
}

namespace {

constexpr size_t kKeptForLine = 16 * 1024;  // with no line kept, a larger buffer is freed

}  // namespace

const void* LineSplitter::id_in(const LineQueue& out) const {
  return buffering_ == Buffering::none ? static_cast<const void*>(&out) : this;
}

void LineSplitter::feed(std::string_view bytes, LineQueue& out) {
  if (bytes.empty()) return;
  if (buffering_ == Buffering::none) return pass_on(bytes, out);
  bytes = resume_line(bytes, out);
  const bool plain = position_ == Position::line_start && bytes.find('\r') == bytes.npos;
  plain ? feed_lines(bytes, out) : feed_progress(bytes, out);
}

/// Buffers a line again whose beginning was shown early, and which another writer has ended since:
/// otherwise it would be shown in as many pieces as it comes in.
std::string_view LineSplitter::resume_line(std::string_view bytes, const LineQueue& out) {
  if (!shown_early_ || out.is_open(id_in(out))) return bytes;
  shown_early_ = false;
  position_ = Position::line_start;
  if (bytes.front() == '\n') bytes.remove_prefix(1);
  return bytes;
}

void LineSplitter::pass_on_kept(LineQueue& out) {
  pass_on(std::exchange(kept_, {}), out);
  shown_early_ = true;
}

// The fast path: no \r, and nothing of the current line has been passed on.
void LineSplitter::feed_lines(std::string_view bytes, LineQueue& out) {
  size_t newline = bytes.find('\n');
  if (newline == bytes.npos) return keep(bytes, out);

  keep(bytes.substr(0, newline), out);
  end_kept_line("\n", out);
  bytes.remove_prefix(newline + 1);
  while ((newline = bytes.find('\n')) != bytes.npos) {
    out.append(prefix_);
    out.append(bytes.substr(0, newline + 1));
    bytes.remove_prefix(newline + 1);
  }
  keep(bytes, out);
}

void LineSplitter::feed_progress(std::string_view bytes, LineQueue& out) {
  size_t ready = bytes.rfind('\n') + 1;  // npos + 1 is 0
  const bool in_progress_line = ready == 0 && position_ != Position::line_start;
  if (in_progress_line || bytes.find('\r', ready) != bytes.npos) ready = bytes.size();

  if (ready > 0) {
    pass_on(kept_, out);
    kept_.clear();
    pass_on(bytes.substr(0, ready), out);
  }
  keep(bytes.substr(ready), out);
}

void LineSplitter::keep(std::string_view text, LineQueue& out) {
  while (kept_.size() + text.size() > kMaxLine) {
    const size_t fits = kMaxLine - kept_.size();
    kept_ += text.substr(0, fits);
    text.remove_prefix(fits);
    end_kept_line(kSplitMark, out);
  }
  kept_ += text;
}

void LineSplitter::end_kept_line(std::string_view end, LineQueue& out) {
  out.begin(id_in(out));
  out.append(prefix_);
  out.append(kept_);
  out.append(end);
  kept_.clear();
  if (kept_.capacity() > kKeptForLine) kept_.shrink_to_fit();
}

void LineSplitter::finish(LineQueue& out) {
  if (buffering_ == Buffering::none) return;
  if (!kept_.empty()) {
    end_kept_line("\n", out);
  } else if (position_ != Position::line_start && out.reopen(id_in(out))) {
    out.begin(id_in(out));
    out.append("\n");
  }
  position_ = Position::line_start;
}

void LineSplitter::pass_on(std::string_view text, LineQueue& out) {
  if (text.empty()) return;
  const void* const id = id_in(out);
  const bool goes_on = text.front() == '\r' ? out.is_open(id) : out.reopen(id);
  if (buffering_ == Buffering::line && position_ != Position::line_start && !goes_on) {
    // Another writer has written since, and has put a newline after our line.
    if (text.front() == '\n') text.remove_prefix(1);
    position_ = Position::line_start;
  }
  if (text.empty()) return;

  out.begin(id);
  prefix_.empty() ? append_plain(text, out) : append_prefixed(text, out);
  if (position_ == Position::line_start) {
    shown_early_ = false;
  } else {
    out.leave_open(id);
  }
}

void LineSplitter::append_plain(std::string_view text, LineQueue& out) {
  out.append(text);
  position_ = text.back() == '\n' ? Position::line_start : Position::inside;
}

void LineSplitter::append_prefixed(std::string_view text, LineQueue& out) {
  while (!text.empty()) {
    const size_t length = std::min(text.find_first_of("\r\n"), text.size());
    if (length > 0) {
      if (position_ != Position::inside) out.append(prefix_);
      out.append(text.substr(0, length));
      position_ = Position::inside;
      text.remove_prefix(length);
      if (text.empty()) break;
    }
    if (text.front() == '\n' && position_ == Position::line_start) out.append(prefix_);
    out.append(text.substr(0, 1));
    position_ = text.front() == '\n' ? Position::line_start : Position::after_return;
    text.remove_prefix(1);
  }
}

}  // namespace ddprun::launcher
