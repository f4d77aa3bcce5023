// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace ddprun::launcher {

/// One CPU, which is a hardware thread, and where in the machine it is. CPUs that share something
/// have the same number for it.
struct Cpu {
  int number;   ///< as the kernel counts
  int core;     ///< any number
  int complex;  ///< any number; what has the same last-level cache
  int node;     ///< NUMA node, as the kernel counts
  int socket;   ///< any number
};

/// CPUs; what is near each other in the machine is so here, and the CPUs of one core are
/// neighbours.
using Topology = std::vector<Cpu>;

/// Where the `allowed` ones of this machine's CPUs are. hwloc, from `library` by dlopen, is asked,
/// and so its own environment variables count (HWLOC_SYNTHETIC, HWLOC_XMLFILE). Milliseconds.
///
/// Errors: usage (the library is missing: what to install), system (it fails).
Result<Topology> discover_topology(const std::vector<int>& allowed,
                                   const std::string& library = "libhwloc.so.15");

}  // namespace ddprun::launcher
