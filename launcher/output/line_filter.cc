// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_filter.h"

#include <algorithm>
#include <utility>

#include "launcher/output/line_splitter.h"

namespace ddprun::launcher {

void LineFilter::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    const size_t room = kMaxLine - kept_.size();
    const bool whole = newline != bytes.npos && newline <= room;
    const std::string_view part = bytes.substr(0, std::min(newline, room));
    if (whole && kept_.empty()) {
      end_line(part, out);
    } else {
      kept_ += part;
      if (whole || kept_.size() == kMaxLine) finish(out);
    }
    bytes.remove_prefix(part.size() + (whole ? 1 : 0));
  }
}

void LineFilter::finish(std::string& out) {
  if (!kept_.empty()) end_line(std::exchange(kept_, {}), out);
}

void LineFilter::end_line(std::string_view line, std::string& out) const {
  const bool selected = std::any_of(texts_.begin(), texts_.end(), [line](const std::string& text) {
    return line.find(text) != line.npos;
  });
  if (selected) out.append(prefix_).append(line).append("\n");
}

}  // namespace ddprun::launcher
