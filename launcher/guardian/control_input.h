// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace ddprun::launcher {

/// Signals to this process from a process on another host, over a descriptor. A byte is the number
/// of a signal, or 0, a sign of life. If the descriptor ends or is silent for kSilence, the process
/// that started this one is gone: that counts as SIGTERM. After as long again it counts as a second
/// SIGTERM, which ends waits such as that for a reader of the output.
class ControlInput {
 public:
  /// Several times the interval between two signs of life.
  static constexpr std::chrono::seconds kSilence{60};

  /// If `input` is empty, no such signals come.
  explicit ControlInput(Fd input, std::chrono::milliseconds silence = kSilence)
      : input_(std::move(input)), silence_(silence) {}

  /// The descriptor for poll(2), and its timeout in milliseconds.
  int fd() const { return input_.get(); }
  int timeout() const;

  /// Returns the signals to forward. Call after each poll; `readable` is poll(2)'s result.
  std::vector<int> read(bool readable);

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<int> hurry();

  Fd input_;
  std::chrono::milliseconds silence_;
  Clock::time_point last_heard_ = Clock::now();
  std::optional<Clock::time_point> hurry_at_;
};

}  // namespace ddprun::launcher
