// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/progress_pattern.h"

#include <algorithm>
#include <array>
#include <regex.h>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr size_t kMostOfLine = 1024;

/// The place after the bracket expression that begins at `at`. In it a backslash is an ordinary
/// character.
size_t after_brackets(std::string_view text, size_t at) {
  ++at;
  if (at < text.size() && text[at] == '^') ++at;
  if (at < text.size() && text[at] == ']') ++at;
  while (at < text.size() && text[at] != ']') {
    const bool is_class = text[at] == '[' && at + 1 < text.size() &&
                          std::string_view(":.=").find(text[at + 1]) != std::string_view::npos;
    const size_t end = is_class ? text.find(std::string{text[at + 1], ']'}, at + 2) + 1 : at;
    if (end == 0) return text.size();  // it never ends; regcomp() reports that
    at = end + 1;
  }
  return at + 1;
}

/// Whether `text` has a back-reference such as \1, an extension of libc. Matching one may take
/// forever, on the thread of the leases.
bool refers_back(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '[') {
      at = after_brackets(text, at);
      continue;
    }
    if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] >= '1' && text[at + 1] <= '9') {
      return true;
    }
    at += text[at] == '\\' ? 2 : 1;
  }
  return false;
}

}  // namespace

struct ProgressPattern::Compiled {
  explicit Compiled(const std::string& text)
      : error(regcomp(&regex, text.c_str(), REG_EXTENDED | REG_NOSUB)) {}
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    if (error == 0) regfree(&regex);
  }

  regex_t regex;
  const int error;
};

Result<ProgressPattern> ProgressPattern::parse(const std::string& text) {
  if (refers_back(text)) {
    return Error{Errc::usage,
                 "'" + text +
                     "' refers back to a part of itself, such as by \\1, which extended "
                     "regular expressions do not have"};
  }
  auto compiled = std::make_shared<const Compiled>(text);
  if (compiled->error == 0) return ProgressPattern(std::move(compiled));
  std::array<char, 128> reason = {};
  regerror(compiled->error, &compiled->regex, reason.data(), reason.size());
  return Error{Errc::usage, "'" + text + "' is no extended regular expression: " + reason.data()};
}

bool ProgressPattern::matches(const std::string& line) const {
  return regexec(&compiled_->regex, line.c_str(), 0, nullptr, 0) == 0;
}

bool PatternLines::feed(std::string_view bytes, const ProgressPattern& pattern) {
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line_ += bytes.substr(0, std::min(size, kMostOfLine - line_.size()));
    if (size == bytes.size()) return false;
    bytes.remove_prefix(size + 1);
    if (pattern.matches(std::exchange(line_, {}))) return true;
  }
  return false;
}

}  // namespace ddprun::agent
