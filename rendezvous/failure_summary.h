// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rendezvous/node.h"

namespace ddprun::rendezvous {

/// How the other workers of the round that ended a job ended, collected from all its nodes, so that
/// each of them reports the same. Pure.
class FailureSummary {
 public:
  /// Call it once for each node.
  void add(const WorkerExits& of_node);

  /// "ranks 5, 6 failed too (exit 1)\nranks 0-3 were stopped by ddprun (SIGTERM, gone after 12 ms;
  /// rank 3 needed SIGKILL)": whole lines, no newline after the last one, and about a KiB at most
  /// however many ranks there are. `root_cause`, the rank that failed first, is left out. Empty:
  /// there were no others.
  std::string text(int root_cause) const;

 private:
  struct Stop {
    std::vector<int> ranks;
    std::vector<int> killed;
    double seconds = 0;  ///< the longest
  };

  std::map<std::string, std::vector<int>> victims_;  ///< ranks by how they ended
  std::map<std::string, Stop> stops_;                ///< by the first signal
};

}  // namespace ddprun::rendezvous
