// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_queue.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace ddprun::launcher {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr char kEscapeMark = '\x10';
constexpr char kChanged = '\x40';  // turns the mark and the escape into printable characters

bool is_special(char c) {
  return c == log::kMark || c == kEscapeMark;
}

}  // namespace

bool has_marks(std::string_view bytes) {
  return bytes.find(log::kMark) != bytes.npos || bytes.find(kEscapeMark) != bytes.npos;
}

std::string without_marks(std::string_view bytes) {
  std::string escaped;
  for (const char c : bytes) {
    if (is_special(c)) escaped += kEscapeMark;
    escaped += is_special(c) ? static_cast<char>(c ^ kChanged) : c;
  }
  return escaped;
}

std::string MarkedLines::take(std::string_view bytes,
                              const std::function<void(std::string_view)>& taken) {
  if (state_ == State::text && !has_marks(bytes)) return std::string(bytes);
  std::string rest;
  for (const char c : bytes) {
    if (c == log::kMark) {  // also in a line that a killed process left unfinished
      state_ = State::marked;
      line_.clear();
    } else if (state_ == State::marked && c == '\n') {
      state_ = State::text;
      taken(line_);
    } else if (state_ == State::marked) {
      if (line_.size() < kLongestLine) line_ += c;
    } else if (state_ == State::escape) {
      const char original = static_cast<char>(c ^ kChanged);
      state_ = State::text;
      rest += is_special(original) ? original : c;
    } else if (c == kEscapeMark) {
      state_ = State::escape;
    } else {
      rest += c;
    }
  }
  return rest;
}

namespace {

constexpr size_t kFirstCapacity = 4096;
constexpr size_t kKeptForLines = 512 * 1024;  // a larger buffer is freed when empty
constexpr std::string_view kEraseLine = "\r\033[K";
constexpr char kEnded = 0;                 // the ended writer of an unfinished line
constexpr size_t kLongestProgress = 4096;  // a longer line fits no terminal, so it is not kept

}  // namespace

void LineQueue::begin(const void* writer) {
  if (open_ != writer) {
    if (open_ != nullptr) line_.is_progress ? erase_open_line() : append("\n");
    line_ = {};
    if (overwrites_) erased_.erase(writer);  // it will draw a new one
  }
  open_ = nullptr;
  began_ = size();
}

void LineQueue::erase_open_line() {
  append(kEraseLine);
  erased_[open_] = std::move(line_);
  erased_last_ = open_;
}

void LineQueue::leave_open(const void* writer) {
  open_ = writer;
  if (!overwrites_) return;
  std::string_view text = pending().substr(began_);
  const size_t newline = text.rfind('\n');
  if (newline != text.npos || line_.is_at_start) line_ = {"", line_.is_progress, false};
  if (newline != text.npos) line_.is_progress = false;
  text.remove_prefix(newline + 1);  // npos + 1 is 0
  line_.is_progress = line_.is_progress || text.find('\r') != text.npos;
  line_.is_at_start = text.ends_with('\r');
  const size_t end = text.find_last_not_of('\r') + 1;
  text = text.substr(0, end);
  const size_t start = text.rfind('\r') + 1;
  if (start > 0) line_.text.clear();
  line_.text += text.substr(start);
  if (line_.text.size() > kLongestProgress) line_ = {};
}

bool LineQueue::reopen(const void* writer) {
  if (is_open(writer)) return true;
  const auto found = erased_.find(writer);
  if (found == erased_.end()) return false;
  const Line line = std::move(found->second);
  begin(writer);
  append("\r");
  append(line.text);
  if (line.is_at_start) append("\r");
  leave_open(writer);
  return true;
}

void LineQueue::end_line() {
  show_progress();
  if (open_ != nullptr) open_ = &kEnded;
  line_ = {};
}

void LineQueue::show_progress() {
  if (erased_last_ == nullptr || open_ != nullptr) return;
  reopen(std::exchange(erased_last_, nullptr));
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
