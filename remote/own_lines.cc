// SPDX-License-Identifier: Apache-2.0
#include "remote/own_lines.h"

namespace ddprun::remote {

bool OwnLines::is_new(size_t host, std::string_view text) {
  if (counts_.size() * hosts_ > kMostNumbers) counts_.clear();
  Count& count = counts_[std::string(text)];
  count.said.resize(hosts_);
  if (++count.said[host] <= count.shown) return false;
  ++count.shown;
  return true;
}

}  // namespace ddprun::remote
