// SPDX-License-Identifier: Apache-2.0
// How quickly the nodes of a job find each other and learn of a failure, all on this machine.
//   bench_rendezvous [RUNS [PART]]    RUNS of each (7 unless told; a third of it for slow launchers
//                                     and crowds); PART: nodes, faults or crowd, all unless told
// nodes   real agents with one worker each, side by side with bare fork+exec and with torchrun's
//         c10d rendezvous ($DDPRUN_BENCH_TORCHRUN is its command if not in the PATH)
// faults  real agents; a worker fails, or a whole agent is killed, until the other nodes' workers
//         are told to stop
// crowd   thousands of simulated agents in two processes and one real server in a third; raises
//         the limit of open files as far as it may, which has to be 10,100 at least
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <boost/asio/ip/address_v4.hpp>

#include "bench/harness.h"
#include "bench/rendezvous_crowd.h"
#include "rendezvous/addresses.h"

namespace ddprun::bench {
namespace {

using std::chrono::milliseconds;

double ms(std::int64_t from, std::int64_t to) {
  return static_cast<double>(to - from) / 1e6;
}

double least(const std::vector<double>& values) {
  return values.empty() ? median({}) : *std::min_element(values.begin(), values.end());
}

std::string median_and_least(const std::vector<double>& values, int decimals = 1) {
  return cell(median(values), decimals) + " (" + cell(least(values), decimals) + ")";
}

std::string free_port() {
  const auto port = rendezvous::free_port(boost::asio::ip::address_v4::loopback());
  if (!port) std::exit(1);
  return std::to_string(*port);
}

// ---- nodes

/// Some way to start one node of a job that meets at `port`.
struct Starter {
  std::string name;
  std::function<Words(int nodes, const std::string& port)> command;
  milliseconds settles{0};  ///< after so long a node waits for the others
  bool slow = false;
};

Words worker(const std::string& mode) {
  return {beside("bench_worker"), mode};
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
  std::vector<double> latecomer;  ///< all others waited for the last node
  int spoilt = 0;
};

/// Starts all nodes, the last one when the others have waited for `pause`.
void start(const Starter& starter, int nodes, milliseconds pause, StartTimes& times) {
  const Words command = starter.command(nodes, free_port());
  Run run(command);
  for (int node = 1; node < nodes - 1; ++node) run.add(command);
  std::this_thread::sleep_for(pause);
  const std::int64_t last_start = monotonic_ns();
  run.add(command);
  if (!run.wait_for_workers(nodes)) {
    ++times.spoilt;
    return;
  }
  std::int64_t last_main = 0;
  for (const Stamp& stamp : run.stamps()) last_main = std::max(last_main, stamp.time);
  if (pause > milliseconds::zero()) {
    times.latecomer.push_back(ms(last_start, last_main));
  } else {
    times.from_first.push_back(ms(run.began(), last_main));
    times.from_last.push_back(ms(last_start, last_main));
  }
}

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
      if (times[i].from_first.empty() && times[i].spoilt == 0) continue;
      std::printf("  %-16s %26s %21s %33s", all[i].name.c_str(),
                  median_and_least(times[i].from_first).c_str(),
                  median_and_least(times[i].from_last).c_str(),
                  median_and_least(times[i].latecomer).c_str());
      if (times[i].spoilt > 0) std::printf("   (%d runs failed)", times[i].spoilt);
      std::printf("\n");
    }
  }
}

// ---- faults

Words node_of_job(int nodes, int node, const std::string& port) {
  return Words{beside("ddprun"),
               "--nnodes=" + std::to_string(nodes),
               "--node_rank=" + std::to_string(node),
               "--nproc_per_node=1",
               "--master_addr=127.0.0.1",
               "--master_port=" + port} +
         worker("watch");
}

/// When the workers of all nodes but the failed one were told to stop.
std::vector<std::int64_t> stops(const Run& run, int nodes) {
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
  int spoilt = 0;
};

/// Node 1 fails: its worker (`kills_agent`: its agent, by SIGKILL).
void fault(int nodes, bool kills_agent, FaultTimes& times) {
  const std::string port = free_port();
  Run run(node_of_job(nodes, 0, port));
  std::vector<pid_t> others;
  for (int node = 1; node < nodes; ++node) {
    others.push_back(run.add(node_of_job(nodes, node, port)));
  }
  bool good = run.wait_for_workers(nodes);
  std::this_thread::sleep_for(milliseconds(50));  // what the start left to do is done
  std::int64_t failed = monotonic_ns();
  if (kills_agent) {
    kill(others.front(), SIGKILL);
  } else {
    run.open_gate('e');
  }
  const std::vector<std::int64_t> told = good ? stops(run, nodes) : std::vector<std::int64_t>();
  for (const Stamp& stamp : run.stamps()) {
    if (stamp.kind == Stamp::Kind::death) failed = stamp.time;
  }
  if (static_cast<int>(told.size()) != nodes - 1) {
    ++times.spoilt;
    return;
  }
  times.first.push_back(ms(failed, *std::min_element(told.begin(), told.end())));
  times.last.push_back(ms(failed, *std::max_element(told.begin(), told.end())));
}

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
      if (times.spoilt > 0) std::printf("   (%d runs: not within 5 s)", times.spoilt);
      std::printf("\n");
    }
  }
}

// ---- crowd

constexpr int kParts = 2;
constexpr auto kQuiet = milliseconds(4'000);  ///< two heartbeats

struct CrowdTimes {
  std::vector<double> formed, told, formed_again;                     ///< ms
  std::vector<double> form_cpu, fault_cpu;                            ///< seconds of the server
  std::vector<double> quiet_cpu;                                      ///< % of a core
  std::vector<double> peak;                                           ///< MiB
  std::vector<double> form_bytes[2], fault_bytes[2], quiet_bytes[2];  ///< per agent: in, out
};

class CrowdRun {
 public:
  explicit CrowdRun(int nodes)
      : nodes_(nodes), server_([nodes](int socket) { serve_rendezvous(socket, nodes); }) {
    Part part{server_.hear<std::uint16_t>(), nodes, 0, 0};
    for (int i = 0; i < kParts; ++i) {
      part.first += part.count;
      part.count = (nodes - part.first) / (kParts - i);
      parts_.push_back(std::make_unique<Servant>([part](int socket) { run_agents(socket, part); }));
    }
    last_progress();
  }

  void measure(CrowdTimes& times) {
    Usage before = usage();
    Traffic bytes{};
    std::int64_t began = monotonic_ns();
    for (const auto& part : parts_) part->order('j');
    times.formed.push_back(ms(began, last_progress()));
    note(times.form_cpu, before);
    note(times.form_bytes, bytes);

    began = monotonic_ns();
    parts_.front()->order('f');
    times.told.push_back(ms(began, last_progress()));
    times.formed_again.push_back(ms(began, last_progress()));
    note(times.fault_cpu, before);
    note(times.fault_bytes, bytes);

    std::this_thread::sleep_for(kQuiet);
    std::vector<double> seconds;
    note(seconds, before);
    note(times.quiet_bytes, bytes);
    times.quiet_cpu.push_back(100 * seconds.front() * 1e3 / static_cast<double>(kQuiet.count()));
    times.peak.push_back(before.peak_mib);
  }

 private:
  Usage usage() const {
    server_.order('u');
    return server_.hear<Usage>();
  }

  /// Waits until every part has come to its next point.
  std::int64_t last_progress() const {
    std::int64_t last = 0;
    for (const auto& part : parts_) last = std::max(last, part->hear<Progress>().last);
    return last;
  }

  void note(std::vector<double>& cpu, Usage& before) const {
    const Usage now = usage();
    cpu.push_back(now.cpu_seconds - before.cpu_seconds);
    before = now;
  }

  void note(std::vector<double> (&bytes)[2], Traffic& before) const {
    Traffic now;
    for (const auto& part : parts_) {
      part->order('t');
      const auto its = part->hear<Traffic>();
      now.sent += its.sent;
      now.received += its.received;
    }
    bytes[0].push_back(static_cast<double>(now.received - before.received) / nodes_);
    bytes[1].push_back(static_cast<double>(now.sent - before.sent) / nodes_);
    before = now;
  }

  int nodes_;
  Servant server_;
  std::vector<std::unique_ptr<Servant>> parts_;
};

void print(int nodes, const CrowdTimes& times) {
  const auto bytes = [](const std::vector<double>(&both)[2]) {
    return cell(median(both[0]), 0) + " + " + cell(median(both[1]), 0);
  };
  std::printf("\nN = %-6d ms, median (least): all have their layout %s\n", nodes,
              median_and_least(times.formed, 0).c_str());
  std::printf("  a worker fails: all know %s, all have the next layout %s\n",
              median_and_least(times.told, 0).c_str(),
              median_and_least(times.formed_again, 0).c_str());
  std::printf("  server: CPU s forming %s, failure and next round %s; peak %s MiB\n",
              cell(median(times.form_cpu), 2).c_str(), cell(median(times.fault_cpu), 2).c_str(),
              cell(median(times.peak)).c_str());
  std::printf("  bytes per agent received + sent: forming %s, failure and next round %s\n",
              bytes(times.form_bytes).c_str(), bytes(times.fault_bytes).c_str());
  std::printf("  running on, for %d s: %s %% of a core in the server, %s bytes per agent\n",
              static_cast<int>(kQuiet.count() / 1'000), cell(median(times.quiet_cpu)).c_str(),
              bytes(times.quiet_bytes).c_str());
}

void measure_crowds(int runs) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  std::printf("\nSimulated agents, all joining at once (at most %ld open files)\n",
              static_cast<long>(limit.rlim_cur));
  for (const int nodes : {1'000, 4'000, 10'000}) {
    if (static_cast<long>(limit.rlim_cur) < nodes + 100) {
      std::printf("\nN = %d is skipped: too few files may be open\n", nodes);
      continue;
    }
    CrowdTimes times;
    for (int run = 0; run < runs; ++run) CrowdRun(nodes).measure(times);
    print(nodes, times);
  }
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const std::string part = argc > 2 ? argv[2] : "";
  if (part.empty() || part == "nodes") compare_starts(runs);
  if (part.empty() || part == "faults") measure_faults(runs);
  if (part.empty() || part == "crowd") measure_crowds((runs + 2) / 3);
}
