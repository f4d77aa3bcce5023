// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/cgroup.h"

#include <fstream>

#include "base/file_text.h"
#include "launcher/kernel/control_groups.h"

namespace ddprun::doctor {
namespace {

/// More than any machine has: version 1 writes "no limit" as a large number.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

/// The limit in bytes; -1: there is none.
std::int64_t memory_limit(const std::string& folder) {
  std::int64_t least = -1;
  for (const char* name :
       {"/memory.max", "/memory.limit_in_bytes"}) {  // of version 2, of version 1
    std::int64_t bytes = kNoLimit;
    std::ifstream file(folder + name);
    if (file >> bytes && bytes < kNoLimit && (least < 0 || bytes < least)) least = bytes;
  }
  return least;
}

}  // namespace

ControlGroup read_control_group(const std::string& root) {
  ControlGroup limits;
  const std::string cgroup = file_text(root + "/proc/self/cgroup");
  for (const std::string& folder :
       launcher::control_groups(cgroup, "memory", root + "/sys/fs/cgroup")) {
    const std::int64_t bytes = memory_limit(folder);
    if (bytes >= 0 && (limits.memory < 0 || bytes < limits.memory)) limits.memory = bytes;
  }
  if (const auto quota = launcher::cpu_quota(cgroup, root)) limits.cpus = quota->cpus;
  return limits;
}

}  // namespace ddprun::doctor
