// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/process_use.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unistd.h>
#include <utility>

#include "launcher/kernel/descendants.h"
#include "launcher/kernel/process_sample.h"

namespace ddprun::launcher {
namespace {

/// Threads that only watch something (a watchdog, a progress bar, a monitor of the machine) use
/// less than this.
constexpr double kCpuShare = 0.05;
constexpr double kBytesPerSecond = 16 * 1024;
constexpr double kTick = 0.01;  // the kernel's unit of CPU time
constexpr double kFewBytes = 4096;
constexpr int kMostAncestors = 64;  // between a worker and a process below it

double cpu_between(const ProcessUse& before, const ProcessUse& now) {
  if (before.waits.empty() || now.waits.empty()) return now.cpu_seconds - before.cpu_seconds;
  return seconds_computed(before.waits, now.waits);
}

/// All processes of the host by parent, without io_bytes and `traced`.
std::multimap<pid_t, ProcessUse> uses_of_host() {
  std::multimap<pid_t, ProcessUse> by_parent;
  for (const pid_t pid : numbers_in_folder("/proc")) {
    const std::string stat = proc_text(pid, "stat");
    const std::optional<Descendant> process = parse_proc_stat(stat);
    if (!process || process->name == kStackReader || process->name == kMpiServer) continue;
    if (const auto use = parse_stat_use(stat)) by_parent.emplace(use->parent, *use);
  }
  return by_parent;
}

bool is_same(const ProcessUse& a, const ProcessUse& b) {
  return a.pid == b.pid && a.started == b.started;
}

}  // namespace

/// Format: pid (comm) state ppid ... utime stime cutime cstime priority nice threads itrealvalue
/// starttime vsize rss
std::optional<ProcessUse> parse_stat_use(const std::string& text) {
  const std::optional<Descendant> process = parse_proc_stat(text);
  if (!process || has_ended(*process)) return std::nullopt;
  unsigned long long own[2] = {}, started = 0, pages = 0;
  long long children[2] = {};
  constexpr const char* kFields =
      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %*d %*d %llu %*u "
      "%llu";
  const int found = std::sscanf(text.c_str() + text.rfind(')') + 1, kFields, &own[0], &own[1],
                                &children[0], &children[1], &started, &pages);
  if (found != 6) return std::nullopt;
  const auto ticks =
      static_cast<double>(own[0] + own[1]) + static_cast<double>(children[0] + children[1]);
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessUse use = {process->pid, process->parent, started, ticks / per_second};
  use.resident = pages * static_cast<std::uint64_t>(getpagesize());
  return use;
}

std::uint64_t parse_proc_io(const std::string& text) {
  return proc_number(text, "rchar") + proc_number(text, "wchar");
}

pid_t parent_of(pid_t pid) {
  const std::optional<Descendant> process = parse_proc_stat(proc_text(pid, "stat"));
  return process ? process->parent : 0;
}

ProcessUse use_of_process(pid_t pid) {
  return parse_stat_use(proc_text(pid, "stat")).value_or(ProcessUse{});
}

std::vector<ProcessUse> uses_below(pid_t root) {
  const std::multimap<pid_t, ProcessUse> by_parent = uses_of_host();
  std::vector<ProcessUse> found;
  std::vector<pid_t> to_visit = {root};
  while (!to_visit.empty()) {
    const auto [first, last] = by_parent.equal_range(to_visit.back());
    to_visit.pop_back();
    for (auto child = first; child != last; ++child) {
      ProcessUse& use = found.emplace_back(child->second);
      use.io_bytes = parse_proc_io(proc_text(use.pid, "io"));
      use.traced = parse_proc_status(proc_text(use.pid, "status")).traced;
      to_visit.push_back(use.pid);
    }
  }
  std::ranges::sort(found, {}, &ProcessUse::pid);
  return found;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  for (const auto& [parent, child] : uses_of_host()) children.emplace(parent, child.pid);
  return children;
}

UseChange change_of(const std::vector<ProcessUse>& before, const std::vector<ProcessUse>& now,
                    double seconds) {
  UseChange change;
  change.work = !std::ranges::equal(before, now, is_same);
  for (size_t i = 0; i < now.size() && !change.work; ++i) {
    const double cpu = cpu_between(before[i], now[i]);
    const auto bytes = static_cast<double>(now[i].io_bytes - before[i].io_bytes);
    change.cpu = change.cpu || cpu > kCpuShare * seconds + kTick;
    change.work = bytes > kBytesPerSecond * seconds + kFewBytes;
  }
  return change;
}

std::optional<int> rank_of(pid_t pid, const std::map<pid_t, int>& ranks) {
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    const auto found = ranks.find(pid);
    if (found != ranks.end()) return found->second;
    pid = parent_of(pid);
  }
  return std::nullopt;
}

}  // namespace ddprun::launcher
