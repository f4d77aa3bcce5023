// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/boot_clock.h"
#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// A timer that agent and guardian share: the agent keeps setting it, and the guardian notices when
/// the agent stops doing so.
class LivenessTimer {
 public:
  /// Call before the fork. `settings` is shared by both processes, and zero. Errors: system.
  Result<> open(std::atomic<std::uint32_t>& settings);

  /// In the agent: it expires at `until`, and then again after each `grace`.
  void set(BootClock::time_point until, std::chrono::nanoseconds grace);

  /// In the agent: it does not expire.
  void clear();

  // In the guardian:

  /// Readable when it has expired.
  int fd() const { return fd_.get(); }

  /// Whether it has expired since it was set, or since the last call.
  bool take_expiry() const;

  /// How often it was set or cleared.
  std::uint32_t settings() const { return *settings_; }

  std::chrono::nanoseconds grace() const;

 private:
  void change(std::chrono::nanoseconds until, std::chrono::nanoseconds grace);

  Fd fd_;
  std::atomic<std::uint32_t>* settings_ = nullptr;
};

/// The guardian's view of the timer. The agent is unresponsive if the timer has expired and is not
/// set again within the grace. The grace starts when the guardian sees the expiry: after the whole
/// host was suspended, the timer has expired before the agent could run.
class LivenessWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `timer` outlives it.
  explicit LivenessWatch(const LivenessTimer& timer) : timer_(timer) {}

  /// The descriptor for poll(2), and its timeout in milliseconds.
  int fd() const { return in_grace() ? -1 : timer_.fd(); }
  int timeout() const;

  /// Call after each poll. True once per expiry, at the end of its grace.
  bool is_unresponsive(Clock::time_point now);

 private:
  bool in_grace() const { return grace_ends_ < Clock::time_point::max(); }

  const LivenessTimer& timer_;
  Clock::time_point grace_ends_ = Clock::time_point::max();  // max: the timer has not expired
  std::uint32_t settings_ = 0;                               // before the expiry
};

}  // namespace ddprun::launcher
