// SPDX-License-Identifier: Apache-2.0
// The time that launchers take to start N workers that end at once, side by side.
//   bench_launch [RUNS]      RUNS of each (default 15; a third of it for slow launchers)
// Prints medians: time to the last worker's main(), time until the launcher has ended, and the
// latter as a multiple of a bare fork+exec loop; then the memory of the launcher's processes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "bench/harness.h"

namespace ddprun::bench {
namespace {

constexpr int kLimitMs = 15'000;

struct Times {
  std::vector<double> last_main;  ///< ms
  std::vector<double> wall;       ///< ms
  int failed_runs = 0;            ///< runs that hung or failed
};

void measure(const Launcher& launcher, int count, Times& times) {
  Run run(launcher.command(count, 0, {built_program("bench_worker"), "stamp"}));
  const auto end = run.wait_for_end(kLimitMs);
  const auto stamps = run.stamps();
  if (!end || !run.succeeded() || static_cast<int>(stamps.size()) != count) {
    times.failed_runs++;
    return;
  }
  std::int64_t last = 0;
  for (const Stamp& stamp : stamps) last = std::max(last, stamp.time);
  times.last_main.push_back(static_cast<double>(last - run.began()) / 1e6);
  times.wall.push_back(static_cast<double>(*end - run.began()) / 1e6);
}

bool is_slow(const Launcher& launcher) {
  return launcher.kind == Launcher::Kind::torchrun;
}

/// Alternates the order: a launcher that comes after a larger one finds less in the caches.
void compare(const std::vector<Launcher>& all, int count, int runs) {
  std::map<std::string, Times> times;
  auto order = all;
  for (int run = 0; run < runs; run++) {
    std::ranges::reverse(order);
    for (const Launcher& launcher : order) {
      if (!is_slow(launcher) || run % 3 == 0) measure(launcher, count, times[launcher.name]);
    }
  }
  const double floor = median(times[all[0].name].wall);
  std::printf("\nN = %-4d              last main() ms    wall ms   wall / bare loop\n", count);
  for (const Launcher& launcher : all) {
    const Times& its = times[launcher.name];
    std::printf("  %-20s %14s %10s %18s", launcher.name.c_str(),
                cell(median(its.last_main)).c_str(), cell(median(its.wall)).c_str(),
                cell(median(its.wall) / floor, 2).c_str());
    if (its.failed_runs > 0) std::printf("   (%d runs hung or failed)", its.failed_runs);
    std::printf("\n");
  }
}

/// The number after `name` in a file of "name: number kB" lines, as MiB.
double mib(const std::string& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name, 0) == 0) return std::atof(line.c_str() + name.size()) / 1024;
  }
  return 0;
}

void print_memory(const Launcher& launcher, int count) {
  Run run(launcher.command(count, 0, {built_program("bench_worker"), "wait"}));
  if (!run.wait_for_workers(count)) return;
  std::string peaks;
  double proportional = 0;
  for (const pid_t pid : launcher_processes(run.pid())) {
    const std::string proc = "/proc/" + std::to_string(pid);
    peaks += (peaks.empty() ? "" : " + ") + cell(mib(proc + "/status", "VmHWM:"));
    proportional += mib(proc + "/smaps_rollup", "Pss:");
  }
  std::printf(
      "  %-20s N = %-4d peak resident %s MiB; all together now %s MiB (shared pages split)\n",
      launcher.name.c_str(), count, peaks.c_str(), cell(proportional).c_str());
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const auto all = launchers();
  for (const int count : {1, 8, 32, 128}) compare(all, count, runs);
  std::printf("\nMemory of the launcher's processes\n");
  for (const Launcher& launcher : all) {
    for (const int count : {4, 128}) print_memory(launcher, count);
  }
}
