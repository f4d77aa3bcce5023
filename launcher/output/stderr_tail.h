// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The end of a text that goes by: what a worker said last. Pure.
class StderrTail {
 public:
  static constexpr size_t kBytes = 4096;
  static constexpr int kLines = 20;

  void feed(std::string_view bytes);

  /// The last kLines lines that fit into kBytes, without the final newline; of a progress line
  /// only its last state. Whole lines, except when the last one alone is longer.
  std::string text() const;

 private:
  std::string tail_;     // at most 2 * kBytes
  bool is_cut_ = false;  // tail_ may start inside a line
};

}  // namespace ddprun::launcher
