// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

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

/// The group and all above it. In a container the path may be the host's: its own group is then
/// what it sees as the uppermost.
void read_groups(ControlGroup& limits, const std::string& mount, std::string path) {
  while (!path.empty() && path != "/") {
    read_group(limits, mount + path);
    path.resize(path.rfind('/'));
  }
  read_group(limits, mount);
}

}  // namespace

ControlGroup read_control_group(const std::string& root) {
  ControlGroup limits;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/docker/1", "0::/user"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (second == first + 1) read_groups(limits, mounts, path);
    for (std::string name; std::getline(controllers, name, ',');) {
      if (name == "memory" || name == "cpu") read_groups(limits, mounts + "/" + name, path);
    }
  }
  return limits;
}

}  // namespace ddprun::doctor
