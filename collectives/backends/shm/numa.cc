// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/numa.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

namespace ddp::internal {
namespace {

/// Counts those of `cpus` that are in a list such as "0-3,8".
int count_in(const std::string& list, const cpu_set_t& cpus) {
  int count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    std::size_t first = 0;
    const char* const end = range.data() + range.size();
    const auto [dash, error] = std::from_chars(range.data(), end, first);
    if (error != std::errc()) continue;
    std::size_t last = first;
    if (dash != end && *dash == '-') std::from_chars(dash + 1, end, last);
    for (std::size_t cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) {
      count += CPU_ISSET(cpu, &cpus) ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

std::optional<int> numa_node_of(const cpu_set_t& cpus, const std::string& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    int number = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with("node") || std::from_chars(name.data() + 4, end, number).ptr != end) {
      continue;
    }
    std::string list;
    std::ifstream(entry.path() / "cpulist") >> list;
    if (const int count = count_in(list, cpus); count > 0) {
      return count == CPU_COUNT(&cpus) ? std::optional(number) : std::nullopt;
    }
  }
  return std::nullopt;
}

ShmNumaNodes::ShmNumaNodes(const std::vector<int>& nodes, int rank) {
  std::map<int, std::vector<int>> ranks_of;
  for (std::size_t other = 0; other < nodes.size(); ++other) {
    ranks_of[nodes[other]].push_back(static_cast<int>(other));
  }
  own_ = ranks_of[nodes[static_cast<std::size_t>(rank)]];
  place_ = static_cast<int>(std::ranges::find(own_, rank) - own_.begin());
  const bool are_alike = std::ranges::all_of(ranks_of, [&](const auto& node) {
    return node.first >= 0 && node.second.size() == own_.size();
  });
  if (!are_alike || ranks_of.size() < 2 || own_.size() < 2) return;
  for (const auto& [node, ranks] : ranks_of) {
    counterparts_.push_back(ranks[static_cast<std::size_t>(place_)]);
  }
}

}  // namespace ddp::internal
