// SPDX-License-Identifier: Apache-2.0
#include "agent/wait_reporter.h"

#include <utility>

namespace ddprun::agent {

void WaitReporter::begin(Speak speak) {
  speak_ = std::move(speak);
  began_ = std::chrono::steady_clock::now();
  next_ = kFirst;
  wait();
}

void WaitReporter::end() {
  timer_.cancel();
  next_ = kFirst;
}

void WaitReporter::wait() {
  timer_.expires_at(began_ + next_);
  timer_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    const auto waited = std::exchange(next_, 2 * next_);
    wait();
    speak_(waited);
  });
}

}  // namespace ddprun::agent
