// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/stop_requests.h"

#include <algorithm>
#include <csignal>

#include "launcher/kernel/descendants.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {
namespace {

/// A healthy agent reads a signal within milliseconds.
constexpr std::chrono::seconds kTimeToRead{2};

bool asks_to_stop(int signal) {
  return std::find(kStopSignals.begin(), kStopSignals.end(), signal) != kStopSignals.end();
}

}  // namespace

void StopRequests::forward(int signal, bool from_terminal) {
  const sigval value = {.sival_int = from_terminal ? kFromTerminal : 0};
  if (sigqueue(agent_, signal, value) != 0) kill(agent_, signal);  // no memory for the value
  if (!asks_to_stop(signal)) return;
  kill(agent_, SIGCONT);
  last_ = signal;
  if (first_ == 0) {
    first_ = signal;
    from_ctrl_c_ = signal == SIGINT && from_terminal;
  } else if (!read_by_) {
    read_by_ = Clock::now() + kTimeToRead;
  }
}

int StopRequests::timeout() const {
  if (!read_by_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*read_by_ - Clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

bool StopRequests::are_unread() {
  if (!ignored_ && read_by_ && Clock::now() >= *read_by_) {
    read_by_.reset();
    ignored_ = has_pending_signal(agent_, last_);
  }
  return ignored_;
}

}  // namespace ddprun::launcher
