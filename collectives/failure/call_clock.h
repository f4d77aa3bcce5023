// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddp::internal {

/// std::chrono::steady_clock, in less than half of its time, if the processor counts ticks that
/// programs may read (x86): ticks give the time since the last reading of the steady clock. That is
/// read again every millisecond, so ticks that jump or change their rate mislead for no longer than
/// that. Never goes back.
///
/// Thread: one at a time.
class CallClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Time now() {
#ifdef __x86_64__
    const std::uint64_t ticks = __builtin_ia32_rdtsc();
    const std::uint64_t passed = ticks - ticks_;
    if (passed >= trusted_) return read(ticks);
    const auto since = static_cast<std::int64_t>(static_cast<double>(passed) * tick_);
    return last_ = std::max(last_, read_ + std::chrono::nanoseconds(since));
#else
    return std::chrono::steady_clock::now();
#endif
  }

 private:
  Time read(std::uint64_t before);

  Time read_;  // the steady clock, at `ticks_`
  std::uint64_t ticks_ = 0;
  double tick_ = 0;            // in nanoseconds
  std::uint64_t trusted_ = 0;  // so many ticks after `ticks_`; 0: the pace is unknown
  Time last_;
};

}  // namespace ddp::internal
