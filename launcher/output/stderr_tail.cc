// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/stderr_tail.h"

#include <algorithm>
#include <vector>

namespace ddprun::launcher {
namespace {

/// The line as a terminal would show it in the end: the text after its last \r, not counting \r at
/// the end.
std::string_view last_state(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line.substr(line.rfind('\r') + 1);  // npos + 1 is 0
}

}  // namespace

void StderrTail::feed(std::string_view bytes) {
  if (bytes.size() > kBytes) {
    bytes.remove_prefix(bytes.size() - kBytes);
    tail_.clear();
    is_cut_ = true;
  }
  if (tail_.size() + bytes.size() > 2 * kBytes) {
    tail_.erase(0, tail_.size() - kBytes);
    is_cut_ = true;
  }
  tail_ += bytes;
}

std::string StderrTail::text() const {
  std::string_view left = tail_;
  if (!left.empty() && left.back() == '\n') left.remove_suffix(1);
  std::vector<std::string_view> lines;  // the last one first
  size_t bytes = 0;
  bool more = !left.empty();
  while (more && lines.size() < kLines) {
    const size_t newline = left.rfind('\n');
    const std::string_view line = last_state(left.substr(newline + 1));
    more = newline != left.npos;
    const bool is_whole = more || !is_cut_;
    bytes += line.size() + 1;
    if (!lines.empty() && (!is_whole || bytes > kBytes)) break;
    lines.push_back(line.substr(line.size() - std::min(line.size(), kBytes)));
    if (more) left = left.substr(0, newline);
  }

  std::string text;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line != lines.rbegin()) text += '\n';
    text += *line;
  }
  return text;
}

}  // namespace ddprun::launcher
