// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <sched.h>
#include <string>
#include <vector>

namespace ddp::internal {

/// The NUMA node that has all of these CPUs, by the kernel's number; nullopt if none has, as when a
/// process may run on several. `folder` is where the kernel lists the nodes.
std::optional<int> numa_node_of(const cpu_set_t& cpus,
                                const std::string& folder = "/sys/devices/system/node");

/// The ranks of a host by NUMA node, as one of them sees them. All ranks agree on the ranks of a
/// node and their order.
class ShmNumaNodes {
 public:
  /// `nodes` by rank; -1: none.
  ShmNumaNodes(const std::vector<int>& nodes, int rank);

  /// Whether there are several nodes, with equally many ranks, at least two, and no other ranks. If
  /// not, do not use the rest.
  bool are_several() const { return !counterparts_.empty(); }

  /// The ranks of this rank's node, and this one's index among them.
  const std::vector<int>& own() const { return own_; }
  int place() const { return place_; }

  /// The rank with the same place on each node.
  const std::vector<int>& counterparts() const { return counterparts_; }

 private:
  std::vector<int> own_;
  int place_ = 0;
  std::vector<int> counterparts_;
};

}  // namespace ddp::internal
