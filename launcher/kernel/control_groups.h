// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

/// The folders of the control groups of a process, in either version: its own, and those above it.
/// `cgroup` is the text of /proc/PID/cgroup, `controller` that of version 1 ("cpu"), `mounts` where
/// they are mounted. In a container the path may be the host's: the process's own group is then
/// what it sees as the uppermost. A parser.
std::vector<std::string> control_groups(const std::string& cgroup, const std::string& controller,
                                        const std::string& mounts);

/// A limit of the CPU time of a control group, and how it is felt.
struct CpuQuota {
  double cpus = 0;       ///< as many may be busy
  double throttled = 0;  ///< the share of its periods in which it had to wait for the next one
};

/// The tightest one of these groups, the text of /proc/PID/cgroup; nullopt: there is none. Some
/// 50 µs. For any thread.
std::optional<CpuQuota> cpu_quota(const std::string& cgroup, const std::string& root = "");

/// The one of a process's groups.
std::optional<CpuQuota> cpu_quota_of(pid_t pid, const std::string& root = "");

/// The limit of processes that the control group of a process, or one above it, has reached;
/// nullopt: none has.
std::optional<std::uint64_t> reached_process_limit(pid_t pid, const std::string& root = "");

/// Whether a process is held by the freezer of its control group, or of one above it, as by docker
/// pause. Some 50 µs. For any thread.
bool is_frozen(pid_t pid, const std::string& root = "");

}  // namespace ddprun::launcher
