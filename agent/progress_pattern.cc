// SPDX-License-Identifier: Apache-2.0
#include "agent/progress_pattern.h"

#include <algorithm>
#include <array>
#include <regex.h>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr size_t kMostOfLine = 1024;

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
