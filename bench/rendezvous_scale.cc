// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <memory>
#include <sys/resource.h>
#include <thread>

#include "bench/rendezvous_crowd.h"
#include "bench/rendezvous_parts.h"

namespace ddprun::bench {
namespace {

using std::chrono::milliseconds;

constexpr int kParts = 2;
constexpr auto kQuiet = milliseconds(4'000);  ///< two heartbeats

/// Bytes per agent.
struct BothWays {
  std::vector<double> received;
  std::vector<double> sent;
};

struct CrowdTimes {
  std::vector<double> formed, broken, formed_again;  ///< ms
  std::vector<double> form_cpu, fault_cpu;           ///< seconds of the server
  std::vector<double> form_loop_cpu;                 ///< seconds of its event loop
  std::vector<double> quiet_cpu;                     ///< % of a core
  std::vector<double> peak;                          ///< MiB
  std::vector<double> status, status_cpu;            ///< ms of the asker, seconds of the server
  BothWays form_bytes, fault_bytes, quiet_bytes;
};

class CrowdRun {
 public:
  explicit CrowdRun(int nodes, bool secret = false)
      : nodes_(nodes),
        server_([nodes, secret](int socket) { serve_rendezvous(socket, nodes, secret); }) {
    Part part{server_.read<std::uint16_t>(), nodes, 0, 0, secret};
    for (int i = 0; i < kParts; ++i) {
      part.first += part.count;
      part.count = (nodes - part.first) / (kParts - i);
      parts_.push_back(
          std::make_unique<ChildProcess>([part](int socket) { run_agents(socket, part); }));
    }
    last_progress();
  }

  void measure(CrowdTimes& times) {
    Traffic bytes{};
    Usage before = form(times);
    note(times.form_bytes, bytes);

    const std::int64_t began = monotonic_ns();
    parts_.front()->send('f');
    times.broken.push_back(ms(began, last_progress()));
    times.formed_again.push_back(ms(began, last_progress()));
    note(times.fault_cpu, before);
    note(times.fault_bytes, bytes);

    std::this_thread::sleep_for(kQuiet);
    std::vector<double> seconds;
    note(seconds, before);
    note(times.quiet_bytes, bytes);
    times.quiet_cpu.push_back(100 * seconds.front() * 1e3 / static_cast<double>(kQuiet.count()));
    times.peak.push_back(before.peak_mib);
    ask_status(times);
  }

  /// Lets all join. Returns what the server has used until then.
  Usage form(CrowdTimes& times) {
    Usage before = usage();
    const std::int64_t began = monotonic_ns();
    for (const auto& part : parts_) part->send('j');
    times.formed.push_back(ms(began, last_progress()));
    const double loop_before = before.loop_seconds;
    note(times.form_cpu, before);
    times.form_loop_cpu.push_back(before.loop_seconds - loop_before);
    return before;
  }

 private:
  void ask_status(CrowdTimes& times) const {
    Usage before = usage();
    parts_.front()->send('s');
    const auto asked = parts_.front()->read<Asked>();
    if (asked.answers != static_cast<std::size_t>(nodes_)) {
      std::printf("  only %zu of %d nodes answered\n", asked.answers, nodes_);
    }
    times.status.push_back(asked.ms);
    note(times.status_cpu, before);
  }

  Usage usage() const {
    server_.send('u');
    return server_.read<Usage>();
  }

  /// Waits until every part has sent its next Progress.
  std::int64_t last_progress() const {
    std::int64_t last = 0;
    for (const auto& part : parts_) last = std::max(last, part->read<Progress>().last);
    return last;
  }

  void note(std::vector<double>& cpu, Usage& before) const {
    const Usage now = usage();
    cpu.push_back(now.cpu_seconds - before.cpu_seconds);
    before = now;
  }

  void note(BothWays& bytes, Traffic& before) const {
    Traffic now;
    for (const auto& part : parts_) {
      part->send('t');
      const auto its = part->read<Traffic>();
      now.sent += its.sent;
      now.received += its.received;
    }
    bytes.received.push_back(static_cast<double>(now.received - before.received) / nodes_);
    bytes.sent.push_back(static_cast<double>(now.sent - before.sent) / nodes_);
    before = now;
  }

  int nodes_;
  ChildProcess server_;
  std::vector<std::unique_ptr<ChildProcess>> parts_;
};

void print(int nodes, const CrowdTimes& times) {
  const auto bytes = [](const BothWays& both) {
    return cell(median(both.received), 0) + " + " + cell(median(both.sent), 0);
  };
  std::printf("\nN = %-6d ms, median (least): all have their layout %s\n", nodes,
              median_and_least(times.formed, 0).c_str());
  std::printf("  a worker fails: all know %s, all have the next layout %s\n",
              median_and_least(times.broken, 0).c_str(),
              median_and_least(times.formed_again, 0).c_str());
  std::printf("  server: CPU s forming %s, failure and next round %s; peak %s MiB\n",
              cell(median(times.form_cpu), 2).c_str(), cell(median(times.fault_cpu), 2).c_str(),
              cell(median(times.peak)).c_str());
  std::printf("  bytes per agent received + sent: forming %s, failure and next round %s\n",
              bytes(times.form_bytes).c_str(), bytes(times.fault_bytes).c_str());
  std::printf("  running on, for %d s: %s %% of a core in the server, %s bytes per agent\n",
              static_cast<int>(kQuiet.count() / 1'000), cell(median(times.quiet_cpu)).c_str(),
              bytes(times.quiet_bytes).c_str());
  std::printf("  a status of all ranks: ms %s, server: CPU s %s\n",
              median_and_least(times.status, 0).c_str(), cell(median(times.status_cpu), 2).c_str());
}

/// Raises the limit of open files to its maximum; returns it.
long raise_open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<long>(limit.rlim_cur);
}

/// Whether so many agents need more than `most` open files; then prints that.
bool is_too_many(int nodes, long most) {
  if (most >= nodes + 100) return false;
  std::printf("\nN = %d is skipped: too few files may be open\n", nodes);
  return true;
}

}  // namespace

void measure_crowds(int runs) {
  const long most = raise_open_files();
  std::printf("\nSimulated agents, all joining at once (at most %ld open files)\n", most);
  for (const int nodes : {1'000, 4'000, 10'000}) {
    if (is_too_many(nodes, most)) continue;
    CrowdTimes times;
    for (int run = 0; run < runs; ++run) CrowdRun(nodes).measure(times);
    print(nodes, times);
  }
}

void measure_secret(int runs) {
  const long most = raise_open_files();
  std::printf("\nThe same, until all have their layout, without and with a secret, in turns\n");
  for (const int nodes : {1'000, 4'000, 10'000}) {
    if (is_too_many(nodes, most)) continue;
    CrowdTimes plain, secret;
    Usage used;
    for (int run = 0; run < runs; ++run) {
      CrowdRun(nodes).form(plain);
      used = CrowdRun(nodes, true).form(secret);
    }
    const double cpu = median(secret.form_cpu) - median(plain.form_cpu);
    std::printf(
        "N = %-6d ms, median (least): %s, %s; server: CPU s %s, %s (%s us more an agent), of them "
        "in its event loop %s, %s; peak with a secret %s MiB\n",
        nodes, median_and_least(plain.formed, 0).c_str(),
        median_and_least(secret.formed, 0).c_str(), cell(median(plain.form_cpu), 2).c_str(),
        cell(median(secret.form_cpu), 2).c_str(), cell(1e6 * cpu / nodes, 0).c_str(),
        cell(median(plain.form_loop_cpu), 2).c_str(), cell(median(secret.form_loop_cpu), 2).c_str(),
        cell(used.peak_mib).c_str());
  }
}

}  // namespace ddprun::bench
