// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace ddprun::launcher {

// A set of CPUs is a vector of the kernel's CPU numbers, ascending.

/// The CPUs that this process may run on: its affinity mask, which nproc(1) counts, too, and which
/// is always within its cpuset (sched_setaffinity(2), cpuset(7)). A container's CPU quota is a
/// share of time, not a set of CPUs. As in torchrun, it does not count here.
std::vector<int> allowed_cpus();

/// `cpus` as a bit mask for sched_setaffinity(2).
std::vector<unsigned long> affinity_mask(const std::vector<int>& cpus);

/// One CPU (a hardware thread) and its position in the machine. CPUs with the same number share
/// that part of it.
struct Cpu {
  int number;   ///< the kernel's number
  int core;     ///< an arbitrary id
  int complex;  ///< an arbitrary id; the CPUs share one last-level cache
  int node;     ///< the kernel's number of the NUMA node
  int socket;   ///< an arbitrary id
};

/// CPUs, in the order of their position in the machine: the CPUs of one core are adjacent.
using Topology = std::vector<Cpu>;

/// The `allowed` CPUs of this machine, from hwloc. Loads it from `library` with dlopen; it reads
/// its own environment variables (HWLOC_SYNTHETIC, HWLOC_XMLFILE). Takes milliseconds.
///
/// Errors: usage (the library is missing; names the packages), system (hwloc fails).
Result<Topology> discover_topology(const std::vector<int>& allowed,
                                   const std::string& library = "libhwloc.so.15");

}  // namespace ddprun::launcher
