// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// Selects the lines of one stream that contain one of some texts. Pure.
class LineFilter {
 public:
  /// Puts `prefix` before each line. `texts` must outlive this.
  LineFilter(std::string prefix, const std::vector<std::string>& texts)
      : prefix_(std::move(prefix)), texts_(texts) {}

  /// Takes the next `bytes` and appends the selected lines, whole, to `out`. A line longer than
  /// kMaxLine is split, and its pieces are selected separately.
  void feed(std::string_view bytes, std::string& out);

  /// Ends the stream: its last line may lack the newline.
  void finish(std::string& out);

 private:
  void end_line(std::string_view line, std::string& out) const;

  std::string prefix_;
  const std::vector<std::string>& texts_;
  std::string kept_;  // the beginning of a line; at most kMaxLine bytes
};

}  // namespace ddprun::launcher
