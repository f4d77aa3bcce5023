// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/marked_lines.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "launcher/output/line_splitter.h"

namespace ddprun::launcher {

std::string MarkedLines::take(std::string_view bytes,
                              const std::function<void(std::string_view)>& taken) {
  std::string rest;
  while (!bytes.empty()) {
    const size_t newline = std::min(bytes.find('\n'), bytes.size() - 1);
    const std::string_view piece = bytes.substr(0, newline + 1);
    if (at_line_start_) in_marked_ = piece.front() == log::kMark;
    at_line_start_ = piece.back() == '\n';
    if (in_marked_) {
      keep(piece, taken);
    } else {
      rest += piece;
    }
    bytes.remove_prefix(piece.size());
  }
  return rest;
}

void MarkedLines::keep(std::string_view piece, const std::function<void(std::string_view)>& taken) {
  kept_ += piece.substr(0, kMaxLine - std::min(kept_.size(), kMaxLine));
  if (!at_line_start_) return;
  const std::string line = std::exchange(kept_, {});
  taken(std::string_view(line).substr(1, line.find('\n') - 1));
}

}  // namespace ddprun::launcher
