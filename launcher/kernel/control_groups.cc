// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/control_groups.h"

#include <fstream>
#include <map>
#include <sstream>

#include "base/file_text.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kGroups = "/sys/fs/cgroup";
constexpr const char* kUnified = "/sys/fs/cgroup/unified";  // version 2 beside version 1

/// The first number of a file and the one after it; -1: there is no number, such as in "max".
std::pair<double, double> numbers_in(const std::string& path) {
  std::ifstream file(path);
  std::pair<double, double> numbers(-1, -1);
  if (!(file >> numbers.first)) return {-1, -1};  // a failed >> has written 0
  file >> numbers.second;
  return numbers;
}

std::map<std::string, double> named_numbers_in(const std::string& path) {
  std::ifstream file(path);
  std::map<std::string, double> numbers;
  std::string name;
  for (double number = 0; file >> name >> number;) numbers[name] = number;
  return numbers;
}

std::optional<CpuQuota> quota_of_group(const std::string& folder) {
  auto [quota, period] = numbers_in(folder + "/cpu.max");
  if (quota < 0) {  // version 1, or no limit
    quota = numbers_in(folder + "/cpu.cfs_quota_us").first;
    period = numbers_in(folder + "/cpu.cfs_period_us").first;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  std::map<std::string, double> counts = named_numbers_in(folder + "/cpu.stat");
  const double periods = counts["nr_periods"];
  return CpuQuota{quota / period, periods > 0 ? counts["nr_throttled"] / periods : 0};
}

void add_group_and_above(std::vector<std::string>& folders, const std::string& mount,
                         std::string path) {
  while (!path.empty() && path != "/") {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
}

std::string groups_of(pid_t pid, const std::string& root) {
  return file_text(root + "/proc/" + std::to_string(pid) + "/cgroup");
}

}  // namespace

std::vector<std::string> control_groups(const std::string& cgroup, const std::string& controller,
                                        const std::string& mounts) {
  std::vector<std::string> folders;
  std::istringstream file(cgroup);
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/docker/1", "0::/user"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    if (second == first + 1) add_group_and_above(folders, mounts, path);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    for (std::string name; std::getline(controllers, name, ',');) {
      if (name == controller) add_group_and_above(folders, mounts + "/" + name, path);
    }
  }
  return folders;
}

std::optional<CpuQuota> cpu_quota(const std::string& cgroup, const std::string& root) {
  std::optional<CpuQuota> tightest;
  for (const auto& folder : control_groups(cgroup, "cpu", root + kGroups)) {
    const auto quota = quota_of_group(folder);
    if (quota && (!tightest || quota->cpus < tightest->cpus)) tightest = quota;
  }
  return tightest;
}

std::optional<CpuQuota> cpu_quota_of(pid_t pid, const std::string& root) {
  return cpu_quota(groups_of(pid, root), root);
}

std::optional<std::uint64_t> reached_process_limit(pid_t pid, const std::string& root) {
  const std::string groups = groups_of(pid, root);
  for (const char* mount : {kGroups, kUnified}) {
    for (const std::string& folder : control_groups(groups, "pids", root + mount)) {
      const double limit = numbers_in(folder + "/pids.max").first;
      const bool reached = limit >= 0 && numbers_in(folder + "/pids.current").first >= limit;
      if (reached) return static_cast<std::uint64_t>(limit);
    }
  }
  return std::nullopt;
}

bool is_frozen(pid_t pid, const std::string& root) {
  const std::string groups = groups_of(pid, root);
  for (const char* mount : {kGroups, kUnified}) {
    for (const std::string& folder : control_groups(groups, "freezer", root + mount)) {
      std::string state;  // of version 1
      std::ifstream(folder + "/freezer.state") >> state;
      if (state == "FROZEN") return true;
      if (named_numbers_in(folder + "/cgroup.events")["frozen"] == 1) return true;
    }
  }
  return false;
}

}  // namespace ddprun::launcher
