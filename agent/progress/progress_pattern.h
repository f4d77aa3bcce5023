// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

// --progress_pattern: the lines of output that show a worker's progress. Pure.

namespace ddprun::agent {

/// A POSIX extended regular expression.
class ProgressPattern {
 public:
  /// Errors: usage.
  static Result<ProgressPattern> parse(const std::string& text);

  /// Whether the pattern matches a part of `line`.
  bool matches(const std::string& line) const;

 private:
  struct Compiled;

  explicit ProgressPattern(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)) {}

  std::shared_ptr<const Compiled> compiled_;
};

/// The first KiB of each line of a stream. Lines of a progress bar end in \r.
class PatternLines {
 public:
  /// Whether a line that ends in `bytes` matches. After a match, skips the rest of `bytes`.
  bool feed(std::string_view bytes, const ProgressPattern& pattern);

 private:
  std::string line_;
};

}  // namespace ddprun::agent
