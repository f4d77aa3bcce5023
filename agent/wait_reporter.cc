// SPDX-License-Identifier: Apache-2.0
#include "agent/wait_reporter.h"

#include <utility>

namespace ddprun::agent {

void WaitReporter::begin(Report report) {
  report_ = std::move(report);
  began_ = std::chrono::steady_clock::now();
  next_ = first_;
  wait_for_next();
}

void WaitReporter::end() {
  timer_.cancel();
  next_ = first_;
}

void WaitReporter::wait_for_next() {
  timer_.expires_at(began_ + next_);
  timer_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    const auto waited = std::exchange(next_, 2 * next_);
    wait_for_next();
    report_(waited);
  });
}

}  // namespace ddprun::agent
