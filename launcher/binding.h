// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/error.h"
#include "launcher/topology.h"

namespace ddprun::launcher {

/// Which CPUs a worker gets, by torchrun's names. Its share is an even part, in whole cores, of the
/// CPUs next to its GPUs, which it divides with the other workers there.
enum class NumaBinding {
  node,          ///< all CPUs of the NUMA nodes that its share is on
  socket,        ///< all CPUs of the sockets that its share is on
  exclusive,     ///< its share
  core_complex,  ///< CPUs of its nodes that have the same last-level cache; others get the next
                 ///< ones
};

/// Where a worker runs.
struct Binding {
  std::vector<int> cpus;   ///< the kernel's numbers, ascending
  std::vector<int> nodes;  ///< NUMA nodes they are on, likewise
};

/// Decides where each worker of this machine runs. `near` has for each the NUMA nodes next to its
/// GPUs; none: not known, or no GPUs. When that is so for all, they divide all CPUs, in order.
/// Pure.
///
/// Shares differ by at most one core, the first ones are larger. Workers share cores where there
/// are fewer of these, which exclusive does not allow.
///
/// Errors: usage (no CPU of `topology` is next to a worker's GPUs; too few cores).
Result<std::vector<Binding>> bind_workers(NumaBinding how, const Topology& topology,
                                          const std::vector<std::vector<int>>& near);

}  // namespace ddprun::launcher
