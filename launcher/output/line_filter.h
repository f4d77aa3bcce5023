// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The lines of one stream that contain one of some texts. Pure.
class LineFilter {
 public:
  /// `prefix` goes in front of each line. `texts` must outlive this.
  LineFilter(std::string prefix, const std::vector<std::string>& texts)
      : prefix_(std::move(prefix)), texts_(texts) {}

  /// Takes the next `bytes`; the lines among them that count are appended to `out`, whole. A line
  /// longer than kMaxLine counts in pieces.
  void feed(std::string_view bytes, std::string& out);

  /// The stream is over: its last line may lack its newline.
  void finish(std::string& out);

 private:
  void end_line(std::string_view line, std::string& out) const;

  std::string prefix_;
  const std::vector<std::string>& texts_;
  std::string kept_;  // a line's beginning; at most kMaxLine
};

}  // namespace ddprun::launcher
