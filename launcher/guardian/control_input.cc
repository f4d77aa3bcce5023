// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/control_input.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <span>
#include <unistd.h>

#include "launcher/process/signals.h"

namespace ddprun::launcher {
namespace {

bool may_be_forwarded(int signal) {
  const auto has = [signal](std::span<const int> signals) {
    return std::find(signals.begin(), signals.end(), signal) != signals.end();
  };
  return has(kStopSignals) || has(kForwardedSignals) || has(kOtherSignals);
}

}  // namespace

int ControlInput::timeout() const {
  if (!input_ && !hurry_at_) return -1;
  const Clock::time_point due = hurry_at_.value_or(last_heard_ + silence_);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

std::vector<int> ControlInput::read(bool readable) {
  if (!input_) return hurry();
  unsigned char bytes[64];
  const ssize_t count = readable ? ::read(input_.get(), bytes, sizeof bytes) : -1;
  const bool ended = count == 0 || (count < 0 && readable && errno != EINTR && errno != EAGAIN);
  const Clock::time_point now = Clock::now();
  if (count > 0) last_heard_ = now;
  if (ended || now - last_heard_ >= silence_) {
    input_.reset();
    hurry_at_ = now + silence_;
    return {SIGTERM};
  }
  std::vector<int> signals(bytes, bytes + std::max<ssize_t>(count, 0));
  std::erase_if(signals, [](int signal) { return !may_be_forwarded(signal); });
  return signals;
}

std::vector<int> ControlInput::hurry() {
  if (!hurry_at_ || Clock::now() < *hurry_at_) return {};
  hurry_at_.reset();
  return {SIGTERM};
}

}  // namespace ddprun::launcher
