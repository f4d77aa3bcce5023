// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/recent_output.h"

#include <algorithm>

namespace ddprun::launcher {

void RecentOutput::add(std::string_view bytes) {
  end_ += bytes.size();
  if (bytes.size() >= kKept) {
    kept_ = bytes.substr(bytes.size() - kKept);
    return;
  }
  if (kept_.size() + bytes.size() > 2 * kKept) {
    kept_.erase(0, kept_.size() - std::min(kept_.size(), kKept - bytes.size()));
  }
  kept_ += bytes;
}

RecentOutput::Piece RecentOutput::after(std::uint64_t from, size_t most) const {
  const std::uint64_t first = end_ - kept_.size();
  from = std::clamp(from, first, end_);
  return {from, kept_.substr(from - first, most)};
}

}  // namespace ddprun::launcher
