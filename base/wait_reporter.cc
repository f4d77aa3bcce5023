// SPDX-License-Identifier: Apache-2.0
#include "base/wait_reporter.h"

#include <utility>

namespace ddprun {

void WaitReporter::begin(Report report) {
  ++wait_;
  under_way_ = true;
  report_ = std::move(report);
  began_ = std::chrono::steady_clock::now();
  next_ = first_;
  wait_for_next();
}

void WaitReporter::end() {
  ++wait_;
  under_way_ = false;
  timer_.cancel();
  next_ = first_;
}

void WaitReporter::wait_for_next() {
  timer_.expires_at(began_ + next_);
  // A timer that has expired calls back even if it is then cancelled.
  timer_.async_wait([this, wait = wait_](boost::system::error_code cancelled) {
    if (cancelled || wait != wait_) return;
    const auto waited = std::exchange(next_, 2 * next_);
    wait_for_next();
    report_(waited);
  });
}

}  // namespace ddprun
