// SPDX-License-Identifier: Apache-2.0
// Preloaded into ddprun: the wall clock is 90 s ahead.
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

// The names of the C library's parameters are reserved for it.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += 90;
  return static_cast<int>(result);
}
