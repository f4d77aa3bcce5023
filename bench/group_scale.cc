// SPDX-License-Identifier: Apache-2.0
// The cost of forming a group of many ranks, each as if alone on its node: on one machine, with the
// ranks in threads.
//   build/bin/bench_group_scale [LARGEST [PROCESSES]]
// Groups of 64, 128, ... LARGEST (1024) ranks in PROCESSES (16) processes, new ones for each group.
// `ulimit -n` must allow some 100 descriptors for each rank of a process.
//
// Columns: seconds until all have joined; average milliseconds of processor time per rank for that,
// in the program and in the kernel, without the store's; bytes between rank 0 and the store,
// without framing, and those of the other rank that has most; the most sockets of a rank after that
// (a mean for its process; each connection between two ranks counts at both); the time of the first
// barrier, which makes most connections; the medians of later barriers, and of an all_reduce of 4
// bytes, with all ranks on this machine's cores; the most sockets after these.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include "bench/harness.h"
#include "ddp/process_group.h"
#include "ddp/spawn.h"
#include "ddp/tcp_store.h"

namespace ddprun::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Keys = std::vector<std::string>;

std::uint64_t size_of(const Keys& keys) {
  std::uint64_t bytes = 0;
  for (const std::string& key : keys) bytes += key.size();
  return bytes;
}

/// Forwards to another store, and counts the bytes of its keys and values.
class CountingStore : public ddp::Store {
 public:
  explicit CountingStore(std::shared_ptr<ddp::Store> store) : store_(std::move(store)) {}
  std::string name() const override { return store_->name(); }
  std::uint64_t bytes() const { return bytes_; }
  ddp::Store& counted() { return *store_; }

 private:
  void do_set(std::string_view key, std::string_view value) override {
    bytes_ += key.size() + value.size();
    store_->set(key, value);
  }
  std::int64_t do_add(std::string_view key, std::int64_t amount) override {
    bytes_ += key.size() + 2 * sizeof(amount);
    return store_->add(key, amount);
  }
  bool do_check(const Keys& keys) override {
    bytes_ += size_of(keys);
    return store_->check(keys);
  }
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired) override {
    bytes_ += key.size() + expected.size() + 2 * desired.size();
    return store_->compare_set(key, expected, desired);
  }
  bool do_delete_key(std::string_view key) override {
    bytes_ += key.size();
    return store_->delete_key(key);
  }
  std::int64_t do_num_keys() override { return store_->num_keys(); }
  void do_append(std::string_view key, std::string_view suffix) override {
    bytes_ += key.size() + suffix.size();
    store_->append(key, suffix);
  }
  void do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) override {
    for (const auto& [key, value] : entries) bytes_ += key.size() + value.size();
    store_->multi_set(entries);
  }
  bool do_wait(const Keys& keys, Deadline deadline) override {
    bytes_ += size_of(keys);
    try {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      store_->wait(keys, std::max(left, std::chrono::milliseconds(0)));
      return true;
    } catch (const ddp::Error& error) {
      if (error.kind() != ddp::ErrorKind::timed_out) throw;
      return false;
    }
  }
  std::vector<std::string> do_multi_get(const Keys& keys) override {
    auto values = store_->multi_get(keys);
    bytes_ += size_of(keys) + size_of(values);
    return values;
  }

  const std::shared_ptr<ddp::Store> store_;
  std::atomic<std::uint64_t> bytes_ = 0;
};

/// The processor time of this process so far, in seconds.
struct ProcessorTime {
  double program = 0;
  double kernel = 0;

  static ProcessorTime now() {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
  }
};

/// The ranks of this process.
struct Process {
  int ranks;
  std::barrier<> meeting{ranks};

  /// The processor time of all ranks so far. The first rank reads it while the others wait.
  ProcessorTime processor_time(int rank) {
    meeting.arrive_and_wait();
    const ProcessorTime time = rank % ranks == 0 ? ProcessorTime::now() : ProcessorTime();
    meeting.arrive_and_wait();
    return time;
  }
};

/// The sockets per rank of the process, without the connection to the store.
double sockets_of(const Process& process) {
  double count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:")) ++count;
  }
  return count / process.ranks - 1;
}

/// The measurements of a rank. Reported: the slowest and the most; for processor time, the sum.
struct Figures {
  double formed = 0;
  ProcessorTime used;
  double bytes_of_first = 0;
  double bytes = 0;
  double sockets = 0;
  double first_barrier = 0;
  double barrier = 0;
  double all_reduce = 0;
  double sockets_in_use = 0;
};

template <class F>
double time_of(F call) {
  const auto began = Clock::now();
  call();
  return Seconds(Clock::now() - began).count();
}

template <class F>
double median_time(F call) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(time_of(call));
  return median(times);
}

/// Waits until all ranks have finished what they did for the previous group.
void begin_together(ddp::Store& store, int size) {
  if (store.add("ready", 1) == size) store.set("begin", "");
  store.wait({"begin"});
}

Figures measure(int rank, int size, Process& process) {
  auto counting = std::make_shared<CountingStore>(std::make_shared<ddp::TcpStore>(
      std::getenv("MASTER_ADDR"),
      static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT")))));
  Figures figures;
  begin_together(counting->counted(), size);
  const ProcessorTime before = process.processor_time(rank);
  const auto began = Clock::now();
  auto group = ddp::init_process_group(
      {.backend = "cpu", .store = counting, .rank = rank, .world_size = size});
  figures.formed = Seconds(Clock::now() - began).count();
  const ProcessorTime after = process.processor_time(rank);
  const bool counts = rank % process.ranks == 0;
  figures.used = {after.program - before.program, after.kernel - before.kernel};
  (rank == 0 ? figures.bytes_of_first : figures.bytes) = static_cast<double>(counting->bytes());
  if (counts) figures.sockets = sockets_of(process);
  figures.first_barrier = time_of([&] { group.barrier(); });
  figures.barrier = median_time([&] { group.barrier(); });
  float value = 1;
  figures.all_reduce = median_time([&] { group.all_reduce(std::span(&value, 1)); });
  if (counts) figures.sockets_in_use = sockets_of(process);
  for (double* figure :
       {&figures.formed, &figures.bytes_of_first, &figures.bytes, &figures.sockets,
        &figures.first_barrier, &figures.barrier, &figures.all_reduce, &figures.sockets_in_use}) {
    group.all_reduce(std::span(figure, 1), ddp::ReduceOp::max);
  }
  for (double* figure : {&figures.used.program, &figures.used.kernel}) {
    group.all_reduce(std::span(figure, 1));
  }
  return figures;
}

/// Runs the ranks of one process in threads.
void run_process(int process, int processes, int size) {
  Process own{size / processes};
  std::vector<std::thread> threads;
  for (int i = 0; i < own.ranks; ++i) {
    threads.emplace_back([=, &own] {
      const int rank = process * own.ranks + i;
      const Figures figures = measure(rank, size, own);
      if (rank != 0) return;
      std::printf("%7d %10.3f %11.2f %10.2f %14.0f %10.0f %8.1f %13.2f %11.2f %14.2f %8.1f\n", size,
                  figures.formed, figures.used.program * 1e3 / size,
                  figures.used.kernel * 1e3 / size, figures.bytes_of_first, figures.bytes,
                  figures.sockets, figures.first_barrier * 1e3, figures.barrier * 1e3,
                  figures.all_reduce * 1e3, figures.sockets_in_use);
      std::fflush(stdout);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Keeps ranks from sharing memory: no rank may write a long file.
void be_alone_on_node() {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 64 << 10;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace
}  // namespace ddprun::bench

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  const int largest = argc > 1 ? std::atoi(argv[1]) : 1024;
  const int processes = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 16;
  std::printf(
      "# ranks   formed s  program ms  kernel ms  rank 0, bytes  another's  sockets"
      "  1st barrier ms  barrier ms  all_reduce ms  sockets\n");
  std::fflush(stdout);
  try {
    for (int size = 64; size <= largest; size *= 2) {
      ddp::spawn(processes, [&](int process) {
        be_alone_on_node();
        run_process(process, processes, size);
      });
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_group_scale: %s\n", failure.what());
    return 1;
  }
  return 0;
}
