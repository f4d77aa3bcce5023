// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace ddprun {

/// Time since this host was started (CLOCK_BOOTTIME). Nobody can set it. Unlike
/// std::chrono::steady_clock it also runs while the host is suspended, so leases expire then, too.
/// Its durations are those of std::chrono::steady_clock.
struct BootClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;  // NOLINT(readability-identifier-naming): std::chrono

  static time_point now() noexcept;
};

}  // namespace ddprun
