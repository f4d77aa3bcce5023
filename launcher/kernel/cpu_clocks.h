// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

namespace ddprun::launcher {

/// The clocks of these CPUs on which the kernel says when a thread ran last, in milliseconds: each
/// has its own, without the time that interrupts and other virtual machines took from it, so that
/// they drift apart, by minutes in weeks. A thread on each CPU reads its clock, by `read`. Without
/// those CPUs on which this process may not run, or does not within 0.2 s, as a real-time task has
/// them. For any thread.
std::map<int, double> cpu_clocks(const std::set<int>& cpus,
                                 const std::function<std::optional<double>()>& read);

}  // namespace ddprun::launcher
