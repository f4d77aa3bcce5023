// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/agreed_error.h"

namespace ddp::internal {

Error agree_on_failure(GroupContext& context, const std::string& where, int partner,
                       const std::exception& failure) {
  const std::string text = what_gloo_says(failure);
  const bool timed_out =
      text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  return timed_out ? agree_on_timeout(context, where, partner)
                   : agree_on_loss(context, where, partner, text);
}

std::string what_gloo_says(const std::exception& failure) {
  const std::string text = failure.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace ddp::internal
