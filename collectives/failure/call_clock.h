// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ddp::internal {

/// std::chrono::steady_clock, in less than half of its time where the processor counts ticks that
/// programs may read (x86): what has passed since the steady clock was read last comes from these.
/// It is read anew every millisecond, so a count that jumps, or changes its pace, does so for no
/// longer. Never goes back.
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
  std::uint64_t trusted_ = 0;  // so many ticks after `ticks_`; 0: the pace is not known yet
  Time last_;
};

}  // namespace ddp::internal
