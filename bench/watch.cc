// SPDX-License-Identifier: Apache-2.0
// The cost of watching 8 workers of a healthy job, side by side.
//   bench_watch [SECONDS]    of each launcher's processes, all at the same time (default 60)
// Prints the CPU time of the launcher's processes, as a share of one core.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <thread>

#include "bench/harness.h"

namespace ddprun::bench {
namespace {

constexpr int kWorkers = 8;

/// The CPU time of all threads, also ended ones. In ns: some samples cost less than a tick.
double cpu_seconds(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

struct Watched {
  Launcher launcher;
  std::unique_ptr<Run> run;
  double before = 0;

  double used() const {
    double seconds = 0;
    for (const pid_t pid : launcher_processes(run->pid())) seconds += cpu_seconds(pid);
    return seconds;
  }
};

std::vector<Watched> start_all() {
  std::vector<Watched> all;
  for (const Launcher& launcher : launchers()) {
    auto run = std::make_unique<Run>(
        launcher.command(kWorkers, 0, {built_program("bench_worker"), "wait"}));
    if (run->wait_for_workers(kWorkers)) all.push_back({launcher, std::move(run)});
  }
  return all;
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  const int seconds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 60;
  std::vector<Watched> all = start_all();
  const std::chrono::seconds settled{3};  // the cost of a start is not the cost of watching
  std::this_thread::sleep_for(settled);
  for (Watched& each : all) each.before = each.used();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  std::printf("\n%d workers for %d s             CPU ms   %% of a core\n", kWorkers, seconds);
  for (const Watched& each : all) {
    const double used = each.used() - each.before;
    std::printf("  %-24s %12.1f %13.4f\n", each.launcher.name.c_str(), used * 1e3,
                used / seconds * 100);
  }
}
