// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/cgroup.h"

#include <algorithm>
#include <fstream>

#include "base/file_text.h"
#include "launcher/control_groups.h"

namespace ddprun::doctor {
namespace {

/// More than any machine has: version 1 writes "no limit" as a number.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

/// The first number of a file; -1: there is none, as in "max".
std::int64_t number_in(const std::string& path, std::int64_t* second = nullptr) {
  std::ifstream file(path);
  std::int64_t number = -1;
  if (!(file >> number)) return -1;
  if (second != nullptr) file >> *second;
  return number;
}

template <class T>
void take_least(T& least, T value) {
  if (value >= 0 && (least < 0 || value < least)) least = value;
}

void read_memory(ControlGroup& limits, const std::string& file) {
  const std::int64_t bytes = number_in(file);
  if (bytes < kNoLimit) take_least(limits.memory, bytes);
}

void read_quota(ControlGroup& limits, std::int64_t quota, std::int64_t period) {
  if (quota > 0 && period > 0) {
    take_least(limits.cpus, static_cast<double>(quota) / static_cast<double>(period));
  }
}

void read_group(ControlGroup& limits, const std::string& folder) {
  std::int64_t period = -1;
  const std::int64_t quota = number_in(folder + "/cpu.max", &period);
  read_quota(limits, quota, period);
  read_memory(limits, folder + "/memory.max");
  // Of version 1.
  read_memory(limits, folder + "/memory.limit_in_bytes");
  read_quota(limits, number_in(folder + "/cpu.cfs_quota_us"),
             number_in(folder + "/cpu.cfs_period_us"));
}

}  // namespace

ControlGroup read_control_group(const std::string& root) {
  ControlGroup limits;
  const std::string cgroup = file_text(root + "/proc/self/cgroup");
  for (const char* controller : {"memory", "cpu"}) {
    for (const std::string& folder :
         launcher::control_groups(cgroup, controller, root + "/sys/fs/cgroup")) {
      read_group(limits, folder);
    }
  }
  return limits;
}

}  // namespace ddprun::doctor
