// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

/// The folders of a process's control groups, in either version: its own, and those above it.
/// `cgroup` is the text of /proc/PID/cgroup, `controller` the name in version 1 ("cpu"), and
/// `mounts` the folder where they are mounted. In a container the path may be the host's; then the
/// uppermost group that the process sees is its own. A parser.
std::vector<std::string> control_groups(const std::string& cgroup, const std::string& controller,
                                        const std::string& mounts);

/// A limit of the CPU time of a control group, and its effect.
struct CpuQuota {
  double cpus = 0;       ///< so many CPUs may be busy
  double throttled = 0;  ///< the share of its periods in which it had to wait for the next one
};

/// The tightest quota of the groups in `cgroup`, the text of /proc/PID/cgroup; nullopt: no quota.
/// Takes some 50 µs. For any thread.
std::optional<CpuQuota> cpu_quota(const std::string& cgroup, const std::string& root = "");

/// The tightest quota of a process's groups.
std::optional<CpuQuota> cpu_quota_of(pid_t pid, const std::string& root = "");

/// The limit of processes that the control group of a process, or one above it, has reached;
/// nullopt: no limit is reached.
std::optional<std::uint64_t> reached_process_limit(pid_t pid, const std::string& root = "");

/// Whether the freezer of a process's control group, or of one above it, holds it, as docker pause
/// does. Takes some 50 µs. For any thread.
bool is_frozen(pid_t pid, const std::string& root = "");

}  // namespace ddprun::launcher
