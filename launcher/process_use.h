// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher {

/// What a process has used of its host.
struct ProcessUse {
  double cpu_seconds = 0;      ///< of all its threads, and of children that it has waited for
  std::uint64_t resident = 0;  ///< bytes of memory now
};

/// Reads /proc of `pid`, some 30 µs; zeros if it has ended.
ProcessUse process_use(pid_t pid);

/// The first member, in clock ticks, from the text of /proc/PID/stat. A program's name in it may
/// contain anything.
std::uint64_t parse_cpu_ticks(std::string_view stat);

}  // namespace ddprun::launcher
