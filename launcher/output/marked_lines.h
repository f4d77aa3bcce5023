// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

// A stream that contains lines of a ddprun, marked by log::kMark, between bytes of its workers. The
// writer escapes the workers' bytes, so these contain no mark. Pure.

namespace ddprun::launcher {

/// Whether without_marks() changes `bytes`.
bool has_marks(std::string_view bytes);

/// Escapes a worker's bytes for such a stream; MarkedLines restores them.
std::string without_marks(std::string_view bytes);

/// Separates the two parts of such a stream.
class MarkedLines {
 public:
  /// Takes the next `bytes` of the stream. Calls `taken` for each marked line that has ended,
  /// without mark and newline, cut after a MiB. Returns the workers' bytes.
  std::string take(std::string_view bytes, const std::function<void(std::string_view)>& taken);

 private:
  enum class State { text, escape, marked };

  State state_ = State::text;
  std::string line_;  // the beginning of a marked line
};

}  // namespace ddprun::launcher
