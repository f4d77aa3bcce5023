// SPDX-License-Identifier: Apache-2.0
// How quickly launchers act when one of four workers fails, side by side.
//   bench_teardown [RUNS]    RUNS of each (default 15)
// Prints medians in ms after the failure: until all other workers have ended, until the launcher
// has ended, and, with a restart left, until the last new worker's main().
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "bench/harness.h"

namespace ddprun::bench {
namespace {

constexpr int kWorkers = 4;
constexpr int kLimitMs = 5'000;

struct Event {
  char how;  ///< see Run::open_gate
  const char* text;
};

struct Times {
  std::vector<double> others_gone;  ///< ms, as all here
  std::vector<double> launcher_gone;
  std::vector<double> restarted;
  int failed_runs = 0;  ///< the event did not happen
};

double ms_since(std::int64_t death, std::int64_t time) {
  return static_cast<double>(time - death) / 1e6;
}

std::optional<std::int64_t> death(const std::vector<Stamp>& stamps) {
  for (const Stamp& stamp : stamps) {
    if (stamp.kind == Stamp::Kind::death) return stamp.time;
  }
  return std::nullopt;
}

/// Waits until all workers are in main(), and puts all except rank 1 into `others`.
bool wait_until_ready(Run& run, std::vector<pid_t>& others) {
  if (!run.wait_for_workers(kWorkers)) return false;
  for (const Stamp& stamp : run.stamps()) {
    if (stamp.rank != 1) others.push_back(stamp.pid);
  }
  return true;
}

void measure_end(const Launcher& launcher, char how, Times& times) {
  Run run(launcher.command(kWorkers, 0, {built_program("bench_worker"), "wait"}));
  std::vector<pid_t> watched;
  if (!wait_until_ready(run, watched)) {
    times.failed_runs++;
    return;
  }
  watched.push_back(run.pid());
  run.open_gate(how);
  const auto ends = ends_of(watched, kLimitMs);
  const auto failed = death(run.stamps());
  if (!failed || std::find(ends.begin(), ends.end(), std::nullopt) != ends.end()) {
    times.failed_runs++;
    return;
  }
  times.others_gone.push_back(ms_since(*failed, **std::max_element(ends.begin(), ends.end() - 1)));
  times.launcher_gone.push_back(ms_since(*failed, *ends.back()));
}

void measure_restart(const Launcher& launcher, char how, Times& times) {
  Run run(launcher.command(kWorkers, 1, {built_program("bench_worker"), "wait"}));
  std::vector<pid_t> others;
  const bool ready = wait_until_ready(run, others);
  if (ready) run.open_gate(how);
  const auto end = run.wait_for_end(kLimitMs);
  const auto stamps = run.stamps();
  const auto failed = death(stamps);
  std::int64_t last = 0;
  int restarted = 0;
  for (const Stamp& stamp : stamps) {
    if (stamp.generation == 0) continue;
    restarted++;
    last = std::max(last, stamp.time);
  }
  if (!end || !failed || restarted != kWorkers) {
    times.failed_runs++;
    return;
  }
  times.restarted.push_back(ms_since(*failed, last));
}

void compare(const std::vector<Launcher>& all, const Event& event, int runs) {
  std::map<std::string, Times> times;
  for (int run = 0; run < runs; run++) {
    for (const Launcher& launcher : all) {
      Times& its = times[launcher.name];
      if (its.failed_runs >= 2) continue;  // this launcher never does it
      measure_end(launcher, event.how, its);
      if (launcher.restarts()) measure_restart(launcher, event.how, its);
    }
  }
  std::printf("\none of %d workers %-18s others gone ms  launcher gone ms  all restarted ms\n",
              kWorkers, event.text);
  for (const Launcher& launcher : all) {
    const Times& its = times[launcher.name];
    std::printf("  %-34s %14s %17s %17s", launcher.name.c_str(),
                cell(median(its.others_gone)).c_str(), cell(median(its.launcher_gone)).c_str(),
                cell(median(its.restarted)).c_str());
    if (its.failed_runs > 0)
      std::printf("   (%d runs: not within %d s)", its.failed_runs, kLimitMs / 1000);
    std::printf("\n");
  }
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const auto all = launchers();
  compare(all, {'e', "exits 1"}, runs);
  compare(all, {'k', "is killed"}, runs);
}
