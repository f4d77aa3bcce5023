// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/marked_lines.h"

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

}  // namespace ddprun::launcher
