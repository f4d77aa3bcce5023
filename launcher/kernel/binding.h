// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/error.h"
#include "launcher/kernel/topology.h"

namespace ddprun::launcher {

/// Which CPUs a worker gets; the names are torchrun's. A worker's share is an even part, in whole
/// cores, of the CPUs closest to its GPUs. It divides these with the other workers there.
enum class NumaBinding {
  node,          ///< all CPUs of the NUMA nodes that its share is on
  socket,        ///< all CPUs of the sockets that its share is on
  exclusive,     ///< its share
  core_complex,  ///< CPUs of its nodes that share one last-level cache; the next worker gets the
                 ///< next such group
};

/// The CPUs of one worker.
struct Binding {
  std::vector<int> cpus;   ///< the kernel's numbers, ascending
  std::vector<int> nodes;  ///< the NUMA nodes of these CPUs, ascending
};

/// Decides which CPUs each worker of this machine gets. `near` lists for each worker the NUMA nodes
/// closest to its GPUs; empty: unknown, or no GPUs. If it is empty for all workers, they divide all
/// CPUs, in order. Pure.
///
/// Shares differ by at most one core; the first ones are larger. If there are fewer cores than
/// workers, they share cores, except with `exclusive`.
///
/// Errors: usage (`topology` has no CPU close to a worker's GPUs; too few cores).
Result<std::vector<Binding>> bind_workers(NumaBinding how, const Topology& topology,
                                          const std::vector<std::vector<int>>& near);

}  // namespace ddprun::launcher
