// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Takes the lines that begin with log::kMark out of a stream. Pure.
class MarkedLines {
 public:
  /// The next `bytes` of the stream. Calls `taken` for each marked line that has ended, without
  /// mark and newline, cut after kMaxLine bytes; returns all the rest.
  std::string take(std::string_view bytes, const std::function<void(std::string_view)>& taken);

 private:
  void keep(std::string_view piece, const std::function<void(std::string_view)>& taken);

  bool at_line_start_ = true;
  bool in_marked_ = false;
  std::string kept_;  // the beginning of a marked line
};

}  // namespace ddprun::launcher
