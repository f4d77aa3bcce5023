// SPDX-License-Identifier: Apache-2.0
// The overhead of launchers for real Python programs, side by side.
//   PATH=$(scripts/interop-env --where)/bin:$PATH build/bin/bench_interop [RUNS]
// RUNS of each (default 9; a third of it for torchrun). python3 and torchrun come from the PATH.
// Prints medians: the wall time of workers that end at once, and of workers that only import
// PyTorch. Then, for a job of four PyTorch workers over gloo, the time from one's failure until all
// new ones have returned from init_process_group.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "bench/harness.h"

namespace ddprun::bench {
namespace {

constexpr int kLimitMs = 120'000;
constexpr int kRestartWorkers = 4;

struct Times {
  std::vector<double> values;  ///< ms
  int failed_runs = 0;         ///< runs that hung or failed
};

double ms_between(std::int64_t from, std::int64_t to) {
  return static_cast<double>(to - from) / 1e6;
}

void measure_wall(const Words& command, Times& times) {
  Run run(command);
  const auto end = run.wait_for_end(kLimitMs);
  if (end && run.succeeded()) {
    times.values.push_back(ms_between(run.began(), *end));
  } else {
    times.failed_runs++;
  }
}

void measure_restart(const Words& command, Times& times) {
  Run run(command);
  const auto end = run.wait_for_end(kLimitMs);
  std::int64_t failed = 0;
  std::int64_t last = 0;
  int restarted = 0;
  for (const Stamp& stamp : run.stamps()) {
    if (stamp.kind == Stamp::Kind::death) failed = stamp.time;
    if (stamp.kind != Stamp::Kind::main || stamp.generation == 0) continue;
    restarted++;
    last = std::max(last, stamp.time);
  }
  if (end && run.succeeded() && failed != 0 && restarted == kRestartWorkers) {
    times.values.push_back(ms_between(failed, last));
  } else {
    times.failed_runs++;
  }
}

bool is_turn(const Launcher& launcher, int run) {
  return launcher.kind != Launcher::Kind::torchrun || run % 3 == 0;
}

void print(const Launcher& launcher, const Times& its, double floor) {
  const double middle = median(its.values);
  std::printf("  %-20s %12s %18s", launcher.name.c_str(), cell(middle).c_str(),
              cell(middle - floor).c_str());
  if (its.failed_runs > 0) std::printf("   (%d runs hung or failed)", its.failed_runs);
  std::printf("\n");
}

void compare_walls(const std::vector<Launcher>& all, const Words& worker, int count, int runs) {
  std::map<std::string, Times> times;
  for (int run = 0; run < runs; run++) {
    for (const Launcher& launcher : all) {
      if (is_turn(launcher, run)) {
        measure_wall(launcher.command(count, 0, worker), times[launcher.name]);
      }
    }
  }
  std::printf("\nN = %-3d python3 -c '%s'\n%22s %12s %18s\n", count, worker.back().c_str(), "",
              "wall ms", "more than bare ms");
  const double floor = median(times[all[0].name].values);
  for (const Launcher& launcher : all) print(launcher, times[launcher.name], floor);
}

void compare_restarts(const std::vector<Launcher>& all, const Words& worker, int runs) {
  std::map<std::string, Times> times;
  for (int run = 0; run < runs; run++) {
    for (const Launcher& launcher : all) {
      if (launcher.kind == Launcher::Kind::bare_loop || !is_turn(launcher, run)) continue;
      measure_restart(launcher.command(kRestartWorkers, 1, worker), times[launcher.name]);
    }
  }
  std::printf("\nN = %-3d a PyTorch job over gloo, one worker fails\n%22s %12s %18s\n",
              kRestartWorkers, "", "restarted ms", "more than ddprun ms");
  const double ours = median(times["ddprun"].values);
  for (const Launcher& launcher : all) {
    if (launcher.kind != Launcher::Kind::bare_loop) print(launcher, times[launcher.name], ours);
  }
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 9;
  setenv("OMP_NUM_THREADS", "1", 1);  // the bare loop sets nothing, the others set this
  // torchrun 2.15 restarts workers with the store of the dead ones, and the new ones hang in it.
  // With this, rank 0 serves a new store each time.
  setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", 1);
  const std::string python = which("python3");
  if (python.empty()) {
    std::printf("there is no python3 in the PATH\n");
    return 1;
  }
  auto all = launchers();
  std::erase_if(all, [](const Launcher& launcher) {
    return launcher.kind == Launcher::Kind::hydra || launcher.kind == Launcher::Kind::openmpi;
  });
  for (const char* program : {"pass", "import torch"}) {
    for (const int count : {1, 4, 8}) compare_walls(all, {python, "-c", program}, count, runs);
  }
  compare_restarts(all, {python, DDPRUN_BENCH_SOURCES "/restart.py"}, runs);
}
