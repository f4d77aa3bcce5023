// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <signal.h>
#include <thread>

#include <boost/asio/ip/address_v4.hpp>

#include "bench/rendezvous_parts.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::bench {
namespace {

using std::chrono::milliseconds;

std::string free_port() {
  const auto port = rendezvous::free_port(boost::asio::ip::address_v4::loopback());
  if (!port) std::exit(1);
  return std::to_string(*port);
}

/// A way to start one node of a job with its rendezvous at `port`.
struct Starter {
  std::string name;
  std::function<Words(int nodes, const std::string& port)> command;
  milliseconds settles{0};  ///< start-up time until a node waits for the others
  bool slow = false;
};

Words worker(const std::string& mode) {
  return {built_program("bench_worker"), mode};
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<Starter> starters() {
  std::vector<Starter> all;
  all.push_back({"bare fork+exec", [](int, const std::string&) { return worker("wait"); }});
  for (const Launcher& launcher : launchers()) {
    const bool torchrun = launcher.kind == Launcher::Kind::torchrun;
    if (!torchrun && launcher.kind != Launcher::Kind::ddprun) continue;
    const auto command = [launcher, torchrun](int nodes, const std::string& port) {
      Words words =
          launcher.program + Words{"--nnodes=" + std::to_string(nodes), "--nproc_per_node=1",
                                   "--rdzv_endpoint=127.0.0.1:" + port, "--rdzv_id=bench",
                                   "--rdzv_backend=c10d"};
      if (torchrun) words.push_back("--no_python");
      return words + worker("wait");
    };
    const milliseconds settles(torchrun ? 6'000 : 700);
    all.push_back({torchrun ? "torchrun (c10d)" : launcher.name, command, settles, torchrun});
  }
  return all;
}

struct StartTimes {
  std::vector<double> from_first;  ///< ms until the last worker's main(), as all here
  std::vector<double> from_last;
  std::vector<double> late_node;  ///< all others waited for the last node
  int failed_runs = 0;
};

/// Starts all nodes; starts the last one when the others have waited for `pause`.
void start(const Starter& starter, int nodes, milliseconds pause, StartTimes& times) {
  const Words command = starter.command(nodes, free_port());
  Run run(command);
  for (int node = 1; node < nodes - 1; ++node) run.add(command);
  std::this_thread::sleep_for(pause);
  const std::int64_t last_start = monotonic_ns();
  run.add(command);
  if (!run.wait_for_workers(nodes)) {
    ++times.failed_runs;
    return;
  }
  std::int64_t last_main = 0;
  for (const Stamp& stamp : run.stamps()) last_main = std::max(last_main, stamp.time);
  if (pause > milliseconds::zero()) {
    times.late_node.push_back(ms(last_start, last_main));
  } else {
    times.from_first.push_back(ms(run.began(), last_main));
    times.from_last.push_back(ms(last_start, last_main));
  }
}

}  // namespace

void compare_starts(int runs) {
  const std::vector<Starter> all = starters();
  std::printf("Real agents, one worker each: ms to the last worker's main(), median (least)\n");
  for (const int nodes : {2, 4, 8, 16, 32}) {
    std::vector<StartTimes> times(all.size());
    for (int run = 0; run < runs; ++run) {
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i].slow && (nodes > 4 || run % 3 != 0)) continue;
        start(all[i], nodes, milliseconds::zero(), times[i]);
        start(all[i], nodes, std::max(all[i].settles, milliseconds(20 * nodes)), times[i]);
      }
    }
    std::printf("\nN = %-2d %38s %21s %33s\n", nodes, "all at once, from the first",
                "from the last", "the last one late, from its start");
    for (size_t i = 0; i < all.size(); ++i) {
      if (times[i].from_first.empty() && times[i].failed_runs == 0) continue;
      std::printf("  %-16s %26s %21s %33s", all[i].name.c_str(),
                  median_and_least(times[i].from_first).c_str(),
                  median_and_least(times[i].from_last).c_str(),
                  median_and_least(times[i].late_node).c_str());
      if (times[i].failed_runs > 0) std::printf("   (%d runs failed)", times[i].failed_runs);
      std::printf("\n");
    }
  }
}

namespace {

Words node_of_job(int nodes, int node, const std::string& port) {
  return Words{built_program("ddprun"),
               "--nnodes=" + std::to_string(nodes),
               "--node_rank=" + std::to_string(node),
               "--nproc_per_node=1",
               "--master_addr=127.0.0.1",
               "--master_port=" + port} +
         worker("watch");
}

/// When the workers of all nodes except the failed one got SIGTERM.
std::vector<std::int64_t> stop_times(const Run& run, int nodes) {
  std::vector<std::int64_t> times;
  const std::int64_t deadline = monotonic_ns() + 5'000'000'000;
  while (static_cast<int>(times.size()) < nodes - 1 && monotonic_ns() < deadline) {
    std::this_thread::sleep_for(milliseconds(2));
    times.clear();
    for (const Stamp& stamp : run.stamps()) {
      if (stamp.kind == Stamp::Kind::asked_to_stop && stamp.rank != 1) times.push_back(stamp.time);
    }
  }
  return times;
}

struct FaultTimes {
  std::vector<double> first;  ///< ms until the first of the others, as all here
  std::vector<double> last;
  int failed_runs = 0;
};

/// Makes node 1 fail: its worker ends with code 1, or (`kills_agent`) its agent is killed.
void fault(int nodes, bool kills_agent, FaultTimes& times) {
  const std::string port = free_port();
  Run run(node_of_job(nodes, 0, port));
  const pid_t agent = run.add(node_of_job(nodes, 1, port));
  for (int node = 2; node < nodes; ++node) run.add(node_of_job(nodes, node, port));
  const bool started = run.wait_for_workers(nodes);
  std::this_thread::sleep_for(milliseconds(50));  // until the start-up has settled
  std::int64_t failed = monotonic_ns();
  if (started && kills_agent) kill(agent, SIGKILL);
  if (started && !kills_agent) run.open_gate('e');
  const auto stopped = started ? stop_times(run, nodes) : std::vector<std::int64_t>();
  if (static_cast<int>(stopped.size()) != nodes - 1) {
    ++times.failed_runs;
    return;
  }
  for (const Stamp& stamp : run.stamps()) {
    if (stamp.kind == Stamp::Kind::death) failed = stamp.time;
  }
  times.first.push_back(ms(failed, *std::min_element(stopped.begin(), stopped.end())));
  times.last.push_back(ms(failed, *std::max_element(stopped.begin(), stopped.end())));
}

}  // namespace

void measure_faults(int runs) {
  std::printf(
      "\nReal agents, one worker each: ms until SIGTERM reaches workers of other nodes, median "
      "(least)\n%44s %16s\n",
      "the first one", "the last one");
  for (const bool kills_agent : {false, true}) {
    for (const int nodes : {2, 8}) {
      FaultTimes times;
      for (int run = 0; run < runs; ++run) fault(nodes, kills_agent, times);
      std::printf(
          "  %-20s N = %-2d %16s %16s", kills_agent ? "an agent is killed" : "a worker fails",
          nodes, median_and_least(times.first, 2).c_str(), median_and_least(times.last, 2).c_str());
      if (times.failed_runs > 0) std::printf("   (%d runs: not within 5 s)", times.failed_runs);
      std::printf("\n");
    }
  }
}

}  // namespace ddprun::bench
