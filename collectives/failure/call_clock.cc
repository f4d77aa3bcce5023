// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/call_clock.h"

namespace ddp::internal {
namespace {

[[maybe_unused]] constexpr auto kReadEvery = std::chrono::milliseconds(1);

/// Nanoseconds of a tick of any processor. A value outside means that the count has jumped.
constexpr double kShortestTick = 0.1;
constexpr double kLongestTick = 10;

/// In ticks. If it took longer, something else ran between the two clocks.
constexpr std::uint64_t kLongestReading = 20'000;

}  // namespace

/// Takes the pace from the time since the last reading, if that was long enough ago.
CallClock::Time CallClock::read([[maybe_unused]] std::uint64_t before) {
  const Time now = std::chrono::steady_clock::now();
#ifdef __x86_64__
  const std::uint64_t ticks = __builtin_ia32_rdtsc();
  trusted_ = 0;
  if (now - read_ < kReadEvery || ticks - before > kLongestReading) {
    return last_ = std::max(last_, now);
  }
  const std::chrono::duration<double, std::nano> passed = now - read_;
  tick_ = passed.count() / static_cast<double>(ticks - ticks_);
  const bool is_sound = kShortestTick < tick_ && tick_ < kLongestTick;
  trusted_ = is_sound
                 ? static_cast<std::uint64_t>(std::chrono::nanoseconds(kReadEvery).count() / tick_)
                 : 0;
  read_ = now;
  ticks_ = ticks;
#endif
  return last_ = std::max(last_, now);
}

}  // namespace ddp::internal
