// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/fd.h"

namespace ddprun::launcher {

/// One process that the kernel killed for want of memory, as its log tells it.
struct OomKill {
  pid_t pid;                     ///< in the initial pid namespace
  std::uint64_t resident_bytes;  ///< what it held in memory
};

/// Was a worker killed by the kernel's out-of-memory killer? Asks the kernel's log (/dev/kmsg, for
/// those who may read it), which names the process, and the count of such kills in our memory
/// cgroup (v1 or v2), which workers inherit. Where neither can be read it knows nothing.
///
/// While all goes well it costs two files that stay open and one small read.
class OomWatch {
 public:
  /// Opens what there is to read. What happened until now does not count. Other paths are for
  /// tests.
  explicit OomWatch(const std::string& kmsg = "/dev/kmsg",
                    const std::string& proc_self = "/proc/self");

  /// What is known of the end of a worker that ran since then: "out of memory (this host's
  /// kernel killed it at 61.8 GiB resident)", a guess that begins with "perhaps", or "". `signal`
  /// killed it, 0 if none did.
  std::string cause(pid_t pid, int signal);

 private:
  void read_log();
  std::optional<std::uint64_t> count() const;

  Fd log_;    // read from where the last read ended; empty: pids in it are not ours, or no right
  Fd count_;  // the cgroup's file that has an "oom_kill" line
  std::optional<std::uint64_t> count_at_begin_;
  std::vector<OomKill> kills_;  // since the start
};

// The pure part.

/// The kill that a record of /dev/kmsg tells about; nullopt: about something else, or it was not
/// written by the kernel.
std::optional<OomKill> parse_oom_kill(std::string_view record);

/// The number in the line "oom_kill N" of memory.events (v2) or memory.oom_control (v1).
std::optional<std::uint64_t> parse_oom_count(std::string_view file);

/// Where our memory cgroup counts its kills, from the texts of /proc/self/cgroup and
/// /proc/self/mountinfo; empty: nowhere.
std::string oom_count_path(std::string_view cgroup, std::string_view mountinfo);

/// "61.8 GiB", "512 MiB".
std::string memory_text(std::uint64_t bytes);

}  // namespace ddprun::launcher
