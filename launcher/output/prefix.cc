// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/prefix.h"

#include <algorithm>
#include <array>
#include <optional>

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

namespace {

constexpr std::string_view kMacros =
    "${rank}, ${local_rank}, ${node_rank}, ${world_size}, ${restart}, ${host}, ${role_name}";

std::optional<std::string> value_of(std::string_view macro, const PrefixFacts& facts) {
  if (macro == "rank") return std::to_string(facts.rank);
  if (macro == "local_rank") return std::to_string(facts.local_rank);
  if (macro == "node_rank") return std::to_string(facts.node_rank);
  if (macro == "world_size") return std::to_string(facts.world_size);
  if (macro == "restart") return std::to_string(facts.restart);
  if (macro == "host" || macro == "hostname") return facts.host;  // ${hostname} is torchrun's
  if (macro == "role_name") return facts.role_name;
  return std::nullopt;
}

Error refusal(std::string_view text, const std::string& why) {
  return {Errc::usage, "prefix '" + std::string(text) + "': " + why};
}

}  // namespace

Result<std::string> expand_prefix(std::string_view text, const PrefixFacts& facts) {
  if (text.find_first_of("\r\n") != text.npos) return refusal(text, "must be one line");
  std::string expanded;
  size_t at = 0;
  for (size_t macro; (macro = text.find("${", at)) != text.npos;) {
    expanded += text.substr(at, macro - at);
    const size_t end = text.find('}', macro);
    if (end == text.npos)
      return refusal(text, "a macro lacks its }; the macros are " + std::string(kMacros));
    const std::string_view name = text.substr(macro + 2, end - macro - 2);
    const auto value = value_of(name, facts);
    if (!value) {
      return refusal(text, "unknown macro ${" + std::string(name) + "}; the macros are " +
                               std::string(kMacros));
    }
    expanded += *value;
    at = end + 1;
  }
  return expanded += text.substr(at);
}

size_t width_of(std::string_view prefix) {
  EscapeFilter filter;
  const std::string_view text = filter.take(prefix);
  const auto begins_character = [](char c) { return (c & '\xc0') != '\x80'; };  // of UTF-8
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string coloured_prefix(const std::string& prefix, int rank) {
  if (prefix.empty()) return prefix;
  // No red: red marks causes of failures.
  static constexpr std::array kColours = {"36", "33", "35", "32", "34",
                                          "96", "93", "95", "92", "94"};
  const char* colour = kColours[static_cast<size_t>(rank) % kColours.size()];
  return std::string("\033[") + colour + "m" + prefix + "\033[0m";
}

}  // namespace ddprun::launcher
