// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_pids.h"

#include "launcher/process/process_use.h"

namespace ddprun::agent {
namespace {

constexpr int kMostAncestors = 64;  // between a worker and a process below it

}  // namespace

std::optional<int> rank_of(pid_t pid, const std::map<pid_t, int>& ranks) {
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    const auto found = ranks.find(pid);
    if (found != ranks.end()) return found->second;
    pid = launcher::parent_of(pid);
  }
  return std::nullopt;
}

}  // namespace ddprun::agent
