// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/fd.h"
#include "launcher/kernel/kernel_log.h"

namespace ddprun::launcher {

/// A process that the kernel's out-of-memory killer killed, from the kernel's log.
struct OomKill {
  pid_t pid;                     ///< in the initial pid namespace
  std::uint64_t resident_bytes;  ///< its resident memory
};

/// Finds out whether the kernel's out-of-memory killer killed a worker. The kernel's log
/// (/dev/kmsg) names the process; the memory cgroup (v1 or v2) that workers inherit counts such
/// kills. If neither is readable, it cannot tell.
///
/// Costs two open files, and one small read while no worker fails.
class OomWatch {
 public:
  /// Opens the files. Only later kills count. Other paths are for tests.
  explicit OomWatch(const std::string& kmsg = "/dev/kmsg",
                    const std::string& proc_self = "/proc/self");

  /// The cause of a worker's end: "out of memory (this host's kernel killed it at 61.8 GiB
  /// resident)", a guess that begins with "perhaps", or "". `signal` killed the worker; 0: none.
  std::string cause(pid_t pid, int signal);

 private:
  void read_log();
  std::optional<std::uint64_t> count() const;

  std::optional<KernelLog> log_;  // nullopt: its pids belong to another namespace
  Fd count_;                      // the cgroup's file with an "oom_kill" line
  std::optional<std::uint64_t> count_at_begin_;
  std::vector<OomKill> kills_;  // since construction
};

// Pure parsers.

/// Parses a record of /dev/kmsg; nullopt: another message, or not from the kernel.
std::optional<OomKill> parse_oom_kill(std::string_view record);

/// The number in the line "oom_kill N" of memory.events (v2) or memory.oom_control (v1).
std::optional<std::uint64_t> parse_oom_count(std::string_view file);

/// The file in which our memory cgroup counts its kills, from the texts of /proc/self/cgroup and
/// /proc/self/mountinfo; empty: there is no such file.
std::string oom_count_path(std::string_view cgroup, std::string_view mountinfo);

/// "61.8 GiB", "512 MiB".
std::string memory_text(std::uint64_t bytes);

}  // namespace ddprun::launcher
