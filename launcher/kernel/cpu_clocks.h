// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

namespace ddprun::launcher {

/// Reads the clocks of these CPUs, in milliseconds, by which the kernel notes when a thread ran
/// last. Each CPU has its own, without the time that interrupts and other virtual machines took
/// from it, so they drift apart, by minutes in weeks. A thread on each CPU calls `read`. Leaves out
/// CPUs on which this process may not run, or does not within 0.2 s, as when a real-time task holds
/// one. For any thread.
std::map<int, double> cpu_clocks(const std::set<int>& cpus,
                                 const std::function<std::optional<double>()>& read);

}  // namespace ddprun::launcher
