// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

// A stream in which lines of a ddprun, marked by log::kMark, are between bytes of its workers. The
// writer escapes the workers' bytes, so no mark is theirs. Pure.

namespace ddprun::launcher {

/// Whether without_marks() changes `bytes`.
bool has_marks(std::string_view bytes);

/// A worker's bytes for such a stream: without a mark. MarkedLines restores them.
std::string without_marks(std::string_view bytes);

/// Takes such a stream apart.
class MarkedLines {
 public:
  /// The next `bytes` of the stream. Calls `taken` for each marked line that has ended, without
  /// mark and newline, cut after a MiB; returns the workers' bytes.
  std::string take(std::string_view bytes, const std::function<void(std::string_view)>& taken);

 private:
  enum class State { text, escape, marked };

  State state_ = State::text;
  std::string line_;  // the beginning of a marked one
};

}  // namespace ddprun::launcher
