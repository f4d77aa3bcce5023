// SPDX-License-Identifier: Apache-2.0
// How fast ddprun passes its workers' output on, beside a plain prefixer in the same run. 4 workers
// print LINES lines of 100 bytes each, in blocks ("full") or with one write() per line ("line").
//   bench_output [RUNS [LINES]]     default: 7 runs of 500,000 lines
// Every line is checked. Prints medians and the ratio; exits with 1 if a line was torn or lost.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <spawn.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "bench/harness.h"
#include "bench/output_line.h"

extern char** environ;

namespace ddprun::bench {
namespace {

constexpr int kWorkers = 4;

struct Relay {
  std::string name;
  Words command;               ///< without the worker's command
  std::vector<double> wall{};  ///< ms
  long max_rss_kib = 0;
};

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench_output: %s\n", what.c_str());
  std::exit(1);
}

/// Runs `command` with stdout in the memory file `capture`; returns milliseconds.
double timed_run(Relay& relay, const Words& worker, const Fd& capture) {
  Words words = relay.command;
  words.insert(words.end(), worker.begin(), worker.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, capture.get(), 1);
  const std::int64_t began = monotonic_ns();
  pid_t pid = 0;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) {
    give_up("cannot run " + words[0]);
  }
  int status = 0;
  rusage usage{};
  wait4(pid, &status, 0, &usage);
  const double wall = static_cast<double>(monotonic_ns() - began) / 1e6;
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) give_up(relay.name + " failed");
  relay.max_rss_kib = std::max(relay.max_rss_kib, usage.ru_maxrss);
  return wall;
}

/// Whether `capture` holds each rank's lines in order, whole and with its prefix.
bool is_complete(const Fd& capture, int lines) {
  constexpr size_t kSize = 4 + OutputLine::kSize;
  std::vector<int> next(kWorkers, 0);
  std::vector<char> block(kSize *
                          10'000);  // a mapping of the whole file would count as memory of ours
  off_t at = 0;
  for (ssize_t count; (count = pread(capture.get(), block.data(), block.size(), at)) > 0;) {
    at += count;
    std::string_view text(block.data(), static_cast<size_t>(count));
    for (; text.size() >= kSize; text.remove_prefix(kSize)) {
      const int rank = text[1] - '0';
      if (rank < 0 || rank >= kWorkers) return false;
      const std::string prefix = "[" + std::to_string(rank) + "] ";
      const OutputLine expected(rank, next[static_cast<size_t>(rank)]++);
      if (!text.starts_with(prefix) || !text.substr(4).starts_with(expected.text())) return false;
    }
    if (!text.empty()) return false;
  }
  return next == std::vector<int>(kWorkers, lines);
}

std::vector<Relay> all_relays() {
  const std::string workers = std::to_string(kWorkers);
  std::vector<Relay> relays = {{"plain prefixer", {built_program("bench_prefixer"), workers}}};
  for (const Launcher& each : ddpruns()) {
    relays.push_back({each.name, {each.program[0], "--nproc_per_node", workers}});
  }
  return relays;
}

void compare(const std::string& mode, int runs, int lines) {
  std::vector<Relay> relays = all_relays();
  const Words worker = {built_program("bench_lines"), std::to_string(lines), mode};
  for (int run = 0; run < runs; run++) {
    for (Relay& relay : relays) {
      const Fd capture(memfd_create("output", MFD_CLOEXEC));
      relay.wall.push_back(timed_run(relay, worker, capture));
      if (!is_complete(capture, lines)) give_up(relay.name + " tore or lost a line");
    }
  }
  const double floor = median(relays[0].wall);
  const double payload_mb = kWorkers * lines * (OutputLine::kSize / 1e6);
  for (const Relay& relay : relays) {
    const double wall = median(relay.wall);
    std::printf("%-5s %-17s %10.1f %8.0f %10.2f %12.1f\n", mode.c_str(), relay.name.c_str(), wall,
                payload_mb / wall * 1e3, wall / floor,
                static_cast<double>(relay.max_rss_kib) / 1024);
  }
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  const int runs = argc > 1 ? std::atoi(argv[1]) : 7;
  const int lines = argc > 2 ? std::atoi(argv[2]) : 500'000;
  if (runs < 1 || lines < 1) return 2;
  std::printf("%d workers x %d lines, medians of %d runs\n", kWorkers, lines, runs);
  std::printf("mode  relay                wall ms     MB/s   / plain  max RSS MiB\n");
  for (const char* mode : {"full", "line"}) compare(mode, runs, lines);
}
