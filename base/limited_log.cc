// SPDX-License-Identifier: Apache-2.0
#include "base/limited_log.h"

#include "base/log.h"
#include "base/text.h"

namespace ddprun::log {

void LimitedLog::warning(const std::string& text) {
  if (lines_++ == 0) begin_period();
  if (lines_ <= kLines) log::warning(cut(printable(text), kLength));
}

// The timer runs only while there is something to count.
void LimitedLog::begin_period() {
  timer_.expires_after(period_);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
    if (cancelled || alive.expired()) return;
    if (lines_ > kLines) {
      log::warning("and " + std::to_string(lines_ - kLines) + " more lines of this kind within " +
                   duration_text(period_));
    }
    lines_ = 0;
  });
}

}  // namespace ddprun::log
