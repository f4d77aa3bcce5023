// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/escape_filter.h"

namespace ddprun::launcher {
namespace {

constexpr char kEscape = '\033';
constexpr char kBell = '\a';

}  // namespace

// Follows ECMA-48, "Control functions for coded character sets".
EscapeFilter::State EscapeFilter::after(char c) const {
  if (c == kEscape) return State::escape;
  switch (state_) {
    case State::escape:
      if (c == '[') return State::control;
      if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_') return State::string;
      return c >= ' ' && c <= '/' ? State::escape : State::text;
    case State::control:
      return c >= ' ' && c <= '?' ? State::control : State::text;
    case State::string:
      return c == kBell ? State::text : State::string;
    case State::text:
      break;
  }
  return State::text;
}

std::string_view EscapeFilter::take(std::string_view bytes) {
  if (state_ == State::text && bytes.find(kEscape) == bytes.npos) return bytes;
  text_.clear();
  for (const char c : bytes) {
    const bool ends_line = c == '\n' || c == '\r';  // also within a cut sequence
    if ((state_ == State::text && c != kEscape) || ends_line) text_ += c;
    state_ = ends_line ? State::text : after(c);
  }
  return text_;
}

}  // namespace ddprun::launcher
